"""How much other labels speak against one."""

from __future__ import annotations

import numpy as np

from sala.labeling.disagreement import disagreement
from sala.labeling.project import OUTLIER, UNLABELED


def slow(x: np.ndarray, given: list[int]) -> list[float]:
    result = []
    for i, c in enumerate(given):
        means = {
            k: np.mean([x[j] for j, g in enumerate(given) if g == k and j != i], axis=0)
            for k in {g for j, g in enumerate(given) if g >= 0 and j != i}
        }
        others = [float(np.linalg.norm(x[i] - mean)) for k, mean in means.items() if k != c]
        if c < 0 or c not in means or not others:
            result.append(0.0)
            continue
        own = float(np.linalg.norm(x[i] - means[c]))
        result.append((own - min(others)) / own)
    return result


def test_the_image_among_those_of_another_class_stands_out() -> None:
    x = np.array([[0.0], [1.0], [9.0], [10.0], [11.0], [5.0]])
    found = disagreement(x, np.array([0, 0, 0, 1, 1, UNLABELED]), 2)
    assert found.argmax() == 2 and (found > 0).tolist() == [False, False, True, False, False, False]


def test_it_is_what_the_slow_twin_says() -> None:
    rng = np.random.default_rng(0)
    x, given = rng.normal(size=(60, 5)), rng.integers(-2, 4, size=60)
    given[given == 3] = 0
    given[7] = 3  # the only one of its class
    np.testing.assert_allclose(disagreement(x, given, 5), slow(x, given.tolist()), atol=1e-9)


def test_one_class_alone_has_none_to_disagree_with() -> None:
    assert not disagreement(np.eye(4), np.array([0, 0, OUTLIER, UNLABELED]), 1).any()
