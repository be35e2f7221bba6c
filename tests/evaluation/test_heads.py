"""Heads are measured on the episodes of the methods, on embeddings of a run or on ready-made features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sala
from sala.data import FeatureStore, ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.heads import auroc, evaluate_heads
from sala.heads import head_named
from sala.methods import build_method
from sala.nn.backbones import Identity, build_backbone

SHAPE = EpisodeShape(n_way=3, n_query=4, n_unlabeled=5, n_distractor=2)
SOME = {name: head_named(name) for name in ("simpleshot", "oslo", "logistic-regression")}


def features(n_classes: int = 6, n: int = 12, noise: float = 0.2) -> FeatureStore:
    rng = np.random.default_rng(0)
    centers = 3 * np.eye(n_classes)
    return FeatureStore(
        "toy", {f"c{i}": centers[i] + noise * rng.normal(size=(n, n_classes)) for i in range(n_classes)}
    )


def sampler(store: ImageStore | FeatureStore) -> EpisodeSampler:
    return EpisodeSampler(store, SHAPE, split="test", seed=3)


def test_heads_get_the_accuracy_of_each_episode_alone(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("protonet", build_backbone("conv4", (28, 28, 1)))
    results = evaluate_heads(SOME, sampler(glyphs), 6, method=method)
    method.eval()
    for name, head in SOME.items():
        alone = []
        for episode in map(sampler(glyphs).episode, range(6)):
            with torch.inference_mode():
                found = head.scores(method.embed(episode.task)).log_probabilities.argmax(-1)
            alone.append(float((found == episode.query_labels).double().mean()))
        assert results[name].accuracies == pytest.approx(alone)


def test_a_head_and_a_method_are_compared_on_the_same_episodes(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("protonet", build_backbone("conv4", (28, 28, 1)))
    own = sala.evaluate(method, sampler(glyphs), 6)
    head = evaluate_heads(SOME, sampler(glyphs), 6, method=method)["simpleshot"]
    assert head.minus(own).mean == pytest.approx(head.accuracy - own.accuracy)


def test_each_image_is_embedded_once_for_all_heads(glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    method = build_method("protonet", build_backbone("conv4", (28, 28, 1)))
    seen: list[int] = []
    embed_images = method.embed_images
    monkeypatch.setattr(method, "embed_images", lambda x: seen.append(len(x)) or embed_images(x))
    evaluate_heads(SOME, sampler(glyphs), 5, embeddings=Embeddings(method, glyphs))
    assert sum(seen) == len(np.unique(sampler(glyphs).batch(0, 5).images))


def test_heads_run_on_the_embeddings_of_a_task_that_conditions_its_network(glyphs: ImageStore) -> None:
    torch.manual_seed(0)
    method = build_method("tadam", build_backbone("conv4", (28, 28, 1)))
    assert len(evaluate_heads(SOME, sampler(glyphs), 3, method=method)["oslo"].accuracies) == 3


def test_easy_features_are_classified_right_and_distractors_told_apart() -> None:
    results = evaluate_heads(SOME, sampler(features()), 8)
    assert all(result.accuracy == 100 for result in results.values())
    assert results["oslo"].diagnostics["inlier_auroc"] > 99
    assert results["oslo"].pseudo_labels["distractors"] < results["simpleshot"].pseudo_labels["distractors"] == 40
    assert results["logistic-regression"].pseudo_labels == {}


def test_methods_run_on_features_too() -> None:
    store = features()
    assert sala.evaluate(build_method("soft-kmeans", Identity(store.width)), sampler(store), 5).accuracy == 100


def test_a_method_for_images_is_refused_on_features() -> None:
    with pytest.raises(SalaError, match=r"has features .*; build it on sala\.Identity"):
        sala.evaluate(build_method("protonet", build_backbone("conv4", (28, 28, 1))), sampler(features()), 2)


def test_images_need_a_backbone(glyphs: ImageStore) -> None:
    with pytest.raises(SalaError, match="whose backbone"):
        evaluate_heads(SOME, sampler(glyphs), 2)


def test_other_features_are_other_episodes() -> None:
    a, b = sampler(features()), sampler(features(noise=0.3))
    assert a.identity == sampler(features()).identity != b.identity


@pytest.mark.parametrize("parts", [{}, {"a": np.zeros(3)}, {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}])
def test_features_of_no_common_width_are_refused(parts: dict[str, np.ndarray]) -> None:
    with pytest.raises(SalaError, match="one d"):
        FeatureStore("odd", parts)


def test_auroc_by_hand() -> None:
    """Positives 0.9 and 0.5 against negatives 0.5 and 0.1: three wins and a tie of four."""
    assert auroc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])) == 0.875
