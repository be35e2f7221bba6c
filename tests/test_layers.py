"""Layers point one way, and the public names are what they should be."""

from __future__ import annotations

import ast
from pathlib import Path

import sala

ROOT = Path(sala.__file__).parent
# A room imports only rooms before it in this list.
ORDER = [
    "errors", "wording", "names", "paper", "fetch",
    "heap", "cache", "partial", "ranks", "episode", "checks", "data", "tasks", "protocol", "jit", "jit_first", "jit_draw",
    "jit_task", "kernels", "sampler", "backbones", "stages", "methods", "batches", "evaluate", "checkpoint", "train",
    "runconfig", "runfolder", "runlog", "runs", "trained", "encoders", "modelfile", "belonging", "points", "aside",
    "refining", "known", "variation", "labelmodel", "sorting", "linear", "leftout", "engine",
    "estimator", "samples", "report", "figures", "page", "labelling", "collection", "events", "statelock", "journal",
    "replay", "session", "projection",
    "downloads", "guard", "pictures", "messages", "serve", "reproduce", "records", "sweep", "tables", "publish", "demo",
    "bench", "bench_scale", "console", "watching", "sweep_view",
    "cli_data", "cli_methods", "cli_bench", "cli_label", "cli_reproduce",
    "cli_serve", "cli_train", "cli_evaluate", "cli_demo", "cli", "__main__",
]  # fmt: skip
# methods know tensors only: no dataset, no sampler, no protocol
FORBIDDEN = {"methods": {"data", "sampler", "protocol"}, "stages": {"data", "sampler", "protocol", "backbones"}}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sala":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("sala.")}
    return found


def test_a_room_imports_only_the_rooms_before_it() -> None:
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        later = {name for name in imports(path) if ORDER.index(name) > ORDER.index(room)}
        assert not later, f"{path.name} imports {later}"
        assert not imports(path) & FORBIDDEN.get(room, set()), f"{path.name} looks at {imports(path)}"


def test_public_names_are_sorted_and_exist() -> None:
    names = sala.__all__
    groups = [[n for n in names if n.isupper()], [n for n in names if n[0].isupper() and not n.isupper()]]
    groups.append([n for n in names if n[0].islower()])
    assert names == [n for group in groups for n in sorted(group)]
    assert all(hasattr(sala, name) for name in names)
    assert {*sala._MODULE_OF, "SalaError"} == set(names) <= set(dir(sala))
