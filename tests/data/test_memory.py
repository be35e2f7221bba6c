"""Freed memory is kept where the C library can be told so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sala.data import memory as heap


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_large_blocks_come_from_memory_that_was_freed() -> None:
    """A block that is freed and asked for again costs page faults only without it."""
    code = (
        "import resource, sys, torch; from sala.data import memory as heap\n"
        "kept = heap.keep_freed_memory() if sys.argv[1] == 'kept' else None\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(5): torch.ones(16_000_000)\n"  # the heap may grow a few times before a block fits where one was freed
        "before = faults()\n"
        "for _ in range(15): torch.ones(16_000_000)\n"
        "print(kept, faults() - before)"
    )
    outputs = {}
    for wish in ("kept", "given back"):
        done = subprocess.run([sys.executable, "-c", code, wish], capture_output=True, text=True, check=True)
        outputs[wish] = done.stdout.split()
    if outputs["kept"][0] == "False":
        pytest.skip("this C library has no mallopt")
    assert int(outputs["kept"][1]) < int(outputs["given back"][1]) / 3


def test_elsewhere_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert heap.keep_freed_memory() is False
