"""Episodes of a user's own object: trained on and measured like those of a sampler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sala.data import FeatureStore, ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Episode, Task
from sala.errors import SalaError
from sala.evaluation.evaluate import evaluate
from sala.methods import METHODS, build_method
from sala.nn.backbones import Identity, build_backbone
from sala.training.loop import TrainConfig, train

SHAPE = EpisodeShape(n_way=3, n_query=4, n_unlabeled=6, n_distractor=2)


class Own:
    """The episodes of a sampler behind an interface of one argument."""

    def __init__(self, sampler: EpisodeSampler):
        self.sampler = sampler

    def episode(self, i: int) -> Episode:
        return self.sampler.episode(i)


@pytest.mark.parametrize("name", ["protonet", "sala", "maml"])
def test_they_are_measured_as_those_of_the_sampler(name: str, glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", glyphs.image_shape))
    sampler = EpisodeSampler(glyphs, SHAPE, split="test", seed=3)
    expected, own = evaluate(method, sampler, 5), evaluate(method, Own(sampler), 5)
    assert own.accuracies == pytest.approx(expected.accuracies)
    assert own.shape == SHAPE
    assert own.pseudo_labels == pytest.approx(expected.pseudo_labels)


def test_results_on_the_same_own_episodes_are_paired_and_on_others_are_not(glyphs: ImageStore) -> None:
    method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
    one, same, other = (
        evaluate(method, Own(EpisodeSampler(glyphs, SHAPE, split="test", seed=seed)), 2) for seed in (3, 3, 4)
    )
    assert one.minus(same).mean == 0
    with pytest.raises(SalaError, match="same episodes"):
        one.minus(other)


@pytest.mark.parametrize("name", ["protonet", "soft-kmeans"])  # without and with unlabeled images in training
def test_training_on_them_gives_the_weights_of_the_sampler(name: str, glyphs: ImageStore) -> None:
    sampler = EpisodeSampler(glyphs, SHAPE, split="train", seed=3)
    weights = []
    for episodes in (sampler, Own(sampler)):
        torch.manual_seed(0)
        method = build_method(name, build_backbone("conv4", glyphs.image_shape))
        train(method, episodes, TrainConfig(n_episodes=3))
        weights.append(torch.cat([p.detach().flatten() for p in method.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    "what",
    ["no episodes", "a task", "an array", "a batch", "labels of unlabeled images", "images in place of features"],
)
def test_what_is_no_episode_is_refused_in_a_sentence(what: str) -> None:
    features = torch.zeros(2, 4)
    task = Task(features, torch.arange(2), features, features, 2)
    right = Episode(task, torch.arange(2), torch.arange(2))
    batched = Task(features[None], torch.arange(2)[None], features[None], features[None], 2)
    returned = {
        "a task": task,
        "an array": replace(right, query_labels=np.arange(2)),  # type: ignore[arg-type]
        "a batch": Episode(batched, torch.arange(2)[None], torch.arange(2)[None]),
        "labels of unlabeled images": replace(right, unlabeled_labels=torch.arange(1)),
        "images in place of features": replace(right, task=replace(task, support=torch.zeros(2, 3, 8, 8))),
    }
    episodes = type("Some", (), {"episode": lambda _, i: returned[what]})() if what in returned else object()
    with pytest.raises(SalaError):
        evaluate(build_method("protonet", Identity(4)), episodes, 1)


@pytest.fixture(scope="module")
def features() -> FeatureStore:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 25)
    return ImageStore.from_features(2 * rng.normal(size=(20, 8))[labels] + rng.normal(size=(500, 8)), labels)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore:.*has no parameters", "ignore:.*distractor cluster")
def test_every_method_is_trained_and_measured_on_features(name: str, features: FeatureStore) -> None:
    shape = EpisodeShape(n_way=3, n_query=5, n_unlabeled=5)
    method = build_method(name, build_backbone("identity", features.item_shape))
    before = [p.detach().clone() for p in method.parameters()]
    training = EpisodeSampler(features, shape, split="train", seed=0, labeled_share=0.5)
    test = EpisodeSampler(features, shape, split="test", seed=0)
    state = train(
        method, training, TrainConfig(n_episodes=4, validate_every=2), validate=lambda m: evaluate(m, test, 5)
    )
    assert state.episode == 4
    assert state.best_accuracy >= 0
    assert not before or any(not torch.equal(a, b) for a, b in zip(before, method.parameters(), strict=True))
    assert np.isfinite(evaluate(method, test, 10).accuracy)


def test_a_training_of_nothing_says_so_and_validates_once(features: FeatureStore) -> None:
    shape = EpisodeShape(n_way=3, n_query=5, n_unlabeled=0)
    sampler = EpisodeSampler(features, shape, split="test", seed=0)
    method, records = build_method("protonet", Identity(features.width)), []
    with pytest.warns(UserWarning, match="nothing to train"):
        train(
            method, sampler, TrainConfig(n_episodes=50), validate=lambda m: evaluate(m, sampler, 5),
            on_record=lambda _, record: records.append(record),
        )  # fmt: skip
    assert [record.episode for record in records] == [50]
    assert records[0].is_best
