"""Shared fixtures: a cache of the tests' own, small stores, and the real data where $SALA_DATA names it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sala.cli.app import main
from sala.data import ImageStore, load_dataset
from sala.data.build import build_store
from sala.data.store import ClassEntry, Source
from sala.encoders import Encoder, open_encoder
from sala.encoders.efficientnet_lite import lite_weights
from sala.errors import SalaError
from sala.nn import kernels
from tests.helpers.pages import folders, port, session  # noqa: F401  (fixtures)
from tests.helpers.painted import color_encoder, painted  # noqa: F401  (fixtures)
from tests.helpers.systems import lacking
from tests.helpers.tasks import SameByThreads
from tests.helpers.trees import Prepare


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """On Windows, a test that asks for pipes, links or signals of POSIX is skipped."""
    try:
        yield
    except (AttributeError, OSError) as error:
        if sys.platform == "win32" and (what := lacking(error)):
            pytest.skip(f"Windows has no {what}")
        raise


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Nothing a test does touches the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    before = os.environ.get("SALA_CACHE")
    os.environ["SALA_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["SALA_CACHE"]
    else:
        os.environ["SALA_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)  # threads that wait for each other are slow on a busy machine


@pytest.fixture(scope="session")
def glyphs(cache: Path) -> ImageStore:
    return load_dataset("glyphs")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real datasets; tests that need it are skipped where there is none."""
    folder = os.environ.get("SALA_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set SALA_DATA to a folder with the real datasets")
    return Path(folder)


@pytest.fixture(scope="session")
def omniglot(real_data: Path) -> ImageStore:
    return load_dataset("omniglot", real_data / "omniglot")


@pytest.fixture(scope="session")
def lite0() -> Encoder:
    """The encoder of photos; tests that need it are skipped where its weights are not installed."""
    try:
        lite_weights("lite0")
    except SalaError as error:
        pytest.skip(str(error))
    return open_encoder("lite0")


@pytest.fixture
def own_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Stores of made-up files go where the test ends; stores of the session are made before."""
    for name in ("glyphs", "omniglot", "real_data"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    monkeypatch.setenv("SALA_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("SALA_DATA", raising=False)


@pytest.fixture
def prepare(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Prepare:
    """`sala data prepare NAME --root ROOT` as a user meets it when it fails: returns the sentence."""
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SALA_CACHE", str(cache))
    monkeypatch.delenv("SALA_DATA", raising=False)

    def run(name: str, root: Path, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["sala", "data", "prepare", name, "--root", str(root), *options])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line.strip()]
        assert (stop.value.code, printed.out, len(lines)) == (1, "", 1), printed.err
        assert list(cache.glob("stores/*")) == []
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")

    return run


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., ImageStore]:
    """A store of flat images whose gray level tells their row: image r is filled with r % 256."""

    def make(counts: dict[str, list[int]], size: int = 2, channels: int = 1) -> ImageStore:
        classes = [ClassEntry(f"{split}{i}", split, n) for split, ns in counts.items() for i, n in enumerate(ns)]
        rows = iter(range(10**9))
        images = (
            (c, np.full((size, size, channels), next(rows) % 256, np.uint8))
            for c, entry in enumerate(classes)
            for _ in range(entry.count)
        )
        return build_store(tmp_path / "store", "toy", Source(classes, images, (size, size, channels)))

    return make


@pytest.fixture
def fresh_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The choice of kernels is made anew, and not by the environment."""
    monkeypatch.delenv("SALA_KERNELS", raising=False)
    kernels.chosen.cache_clear()
    yield
    kernels.chosen.cache_clear()


@pytest.fixture
def same_by_threads(monkeypatch: pytest.MonkeyPatch) -> SameByThreads:
    """Whether a function of kernels gives the same tensors, to the last bit, with one thread and with two."""
    from sala.nn import jit  # needs numba

    monkeypatch.setattr(jit, "WORTH_THREADS", 0)

    def by_threads(n_threads: int, function: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            return function()
        finally:
            torch.set_num_threads(before)

    def same(function: Callable[[], list[torch.Tensor]]) -> bool:
        return all(torch.equal(a, b) for a, b in zip(by_threads(1, function), by_threads(2, function), strict=True))

    return same
