"""Measurement: intervals, paired differences, cached embeddings, pseudo-label counts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sala import evaluate as public_evaluate
from sala.data import FeatureStore, ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation import embeddings
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.evaluate import evaluate
from sala.evaluation.results import Interval, Result
from sala.methods import METHODS, Method, build_method
from sala.nn.backbones import Identity, build_backbone

SHAPE = EpisodeShape(n_way=5, n_query=4, n_unlabeled=6, n_distractor=3)


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    torch.manual_seed(0)
    return build_method(request.param, build_backbone("conv4", (28, 28, 1)), selection_share=0.5)


def test_the_interval_of_four_numbers() -> None:
    interval = Interval.of([0.0, 0.5, 0.5, 1.0])
    assert interval.mean == 50.0
    assert interval.ci95 == pytest.approx(1.96 * np.std([0, 50, 50, 100], ddof=1) / 2)
    assert str(interval) == "50.00 ± 40.01 %"


def test_cached_embeddings_give_the_accuracy_of_each_episode_alone(method: Method, glyphs: ImageStore) -> None:
    sampler = EpisodeSampler(glyphs, SHAPE, split="test", seed=3)
    result = evaluate(method, sampler, 12)
    method.eval()
    with torch.inference_mode():
        alone = [
            float((method.classify(e.task).argmax(-1) == e.query_labels).double().mean())
            for e in map(sampler.episode, range(12))
        ]
    assert result.accuracies == pytest.approx(alone)


def test_the_batch_size_does_not_change_an_accuracy(
    method: Method, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = EpisodeSampler(glyphs, SHAPE, split="test", seed=3)
    whole = evaluate(method, sampler, 20)
    monkeypatch.setattr(embeddings, "EPISODE_BATCH", 7)
    monkeypatch.setattr(embeddings, "EMBEDDING_BATCH", 33)
    assert evaluate(method, sampler, 20).accuracies == whole.accuracies


def test_shared_embeddings_pass_each_image_once(glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    method = build_method("soft-kmeans", build_backbone("conv4", (28, 28, 1)))
    shapes = [SHAPE, replace(SHAPE, n_query=2, n_unlabeled=9)]
    samplers = [EpisodeSampler(glyphs, shape, split="test", seed=3) for shape in shapes]
    alone = [evaluate(method, sampler, 15) for sampler in samplers]
    seen: list[int] = []
    embed_images = method.embed_images
    monkeypatch.setattr(method, "embed_images", lambda x: seen.append(len(x)) or embed_images(x))
    shared = Embeddings(method, glyphs)
    assert [evaluate(method, sampler, 15, embeddings=shared).accuracies for sampler in samplers] == [
        result.accuracies for result in alone
    ]
    used = {
        row
        for s in samplers
        for i in range(15)
        for part in ("support", "query", "unlabeled")
        for row in getattr(s.rows(i), part)
    }
    assert sum(seen) == len(used)


def test_evaluation_leaves_the_method_as_it_was(method: Method, glyphs: ImageStore) -> None:
    method.train()
    before = {name: tensor.clone() for name, tensor in method.state_dict().items()}
    evaluate(method, EpisodeSampler(glyphs, SHAPE, split="val", seed=3), 3)
    assert method.training
    assert all(torch.equal(before[name], tensor) for name, tensor in method.state_dict().items())


class Oracle(Method):
    """Embeds an image as its first pixel and takes all unlabeled images for class 0."""

    paper = "none"

    def embed_images(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :, 0, 0].float()

    def logits(self, task):  # type: ignore[no-untyped-def]
        return -(task.query - task.support.transpose(-2, -1)).abs()

    def pseudo_labels(self, task):  # type: ignore[no-untyped-def]
        from sala.functional import PseudoLabels

        p = torch.zeros(*task.unlabeled.shape[:-1], task.n_way)
        p[..., 0] = 1
        return PseudoLabels(p, torch.ones(task.unlabeled.shape[:-1], dtype=torch.bool))


def test_pseudo_label_counts_by_hand(make_store) -> None:  # type: ignore[no-untyped-def]
    """5 ways and 3 distractor classes with 6 images each, all called class 0: 6 of 48 right, 18 of 48 distractors."""
    store = make_store({"test": [11] * 9})
    method = Oracle(build_backbone("conv4", (28, 28, 1)))
    result = evaluate(method, EpisodeSampler(store, SHAPE, split="test", seed=0), 5)
    assert result.pseudo_labels == {
        "selected": 100.0,
        "accuracy": pytest.approx(12.5),
        "distractors": pytest.approx(37.5),
    }


def test_results_survive_json(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("sala", build_backbone("conv4", (28, 28, 1)))
    result = public_evaluate(method, EpisodeSampler(glyphs, SHAPE, split="test", seed=3), 6)
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert {"metric_weight_spread", "metric_live_units"} <= set(result.diagnostics)


def test_a_paired_difference_is_that_of_the_episodes() -> None:
    a = Result((0.5, 1.0, 0.75), SHAPE, "test", "these")
    b = Result((0.25, 0.5, 0.75), SHAPE, "test", "these")
    assert a.minus(b) == Interval.of([0.25, 0.5, 0.0])


def test_a_difference_over_other_episodes_is_refused() -> None:
    a = Result((0.5, 1.0), SHAPE, "test", "these")
    with pytest.raises(SalaError, match="same episodes"):
        a.minus(replace(a, episodes="those"))


def test_one_episode_has_no_interval() -> None:
    result = Result((0.75,), SHAPE, "test", "these")
    assert str(result.interval) == "75.00 %"
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["ci95"] is None


def test_features_and_images_are_not_taken_for_each_other(glyphs: ImageStore) -> None:
    features = FeatureStore.from_arrays(np.eye(6)[[0, 1, 0, 1]], [0, 1, 0, 1], split="test")
    few = EpisodeShape(n_way=2, n_query=1, n_unlabeled=0)
    for store, width in ((features, 5), (glyphs, 784)):
        with pytest.raises(SalaError, match="takes features"):
            evaluate(build_method("protonet", Identity(width)), EpisodeSampler(store, few, split="test", seed=0), 2)
    pixels = build_method("protonet", build_backbone("identity", glyphs.item_shape))
    assert len(evaluate(pixels, EpisodeSampler(glyphs, few, split="test", seed=0), 2).accuracies) == 2
