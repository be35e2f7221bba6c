"""The command line as a user meets it: what it prints, where, and how it fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sala.cli.app import COMMANDS, app, imported
from sala.data import ImageStore
from sala.episodes.protocol import PROTOCOLS
from sala.episodes.sampler import fixed_sampler
from sala.errors import SalaError
from sala.methods import METHODS
from sala.training.config import read_config

QUICK = ["--dataset", "glyphs", "--episodes", "6", "--validate-every", "3", "--threads", "1"]


def sala(*words: str) -> tuple[str, str]:
    """stdout and stderr of a command that must succeed."""
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, glyphs: ImageStore) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for method in ("protonet", "sala"):
        sala("train", "--method", method, *QUICK, "--out", str(folder / method))
    return {method: folder / method for method in ("protonet", "sala")}


def test_train_prints_the_run_folder_on_stdout_and_the_rest_on_stderr(tmp_path: Path, glyphs: ImageStore) -> None:
    out, err = sala("train", "--method", "protonet", *QUICK, "--out", str(tmp_path / "run"))
    assert out.strip() == str(tmp_path / "run")
    assert "episode 6" in err
    assert "val " in err


def test_evaluate_prints_mean_interval_and_pseudo_labels(runs: dict[str, Path]) -> None:
    words = ("--episodes", "20", "--setting", "large", "--distractors", "5")
    out, _ = sala("evaluate", str(runs["sala"]), *words)
    assert re.search(r"\d+\.\d\d ± \d+\.\d\d %  large: 20 test episodes, 5-way 1-shot, 4 queries and 15 unlabeled", out)
    assert re.search(r"pseudo-labels: 50 % selected, .* of the selected are distractors", out)


def test_evaluate_reports_every_test_setting_by_default(runs: dict[str, Path]) -> None:
    out, _ = sala("evaluate", str(runs["sala"]), "--episodes", "10")
    assert "ren: 10 test episodes" in out
    assert "large: 10 test episodes" in out
    content = json.loads(sala("evaluate", str(runs["sala"]), "--episodes", "10", "--json")[0])
    assert list(content["settings"]) == ["ren", "large"]
    assert content["accuracy"] == content["settings"]["ren"]["accuracy"]


def test_evaluate_as_json_has_every_accuracy_and_is_stored(runs: dict[str, Path]) -> None:
    out, _ = sala("evaluate", str(runs["sala"]), "--episodes", "15", "--queries", "3", "--unlabeled", "2", "--json")
    content = json.loads(out)
    assert len(content["accuracies"]) == 15
    assert (content["shape"]["n_query"], content["shape"]["n_unlabeled"]) == (3, 2)
    stored = json.loads((runs["sala"] / "results" / "test-N5-K1-Q3-H2-C0-15-best.json").read_text())
    assert stored["accuracies"] == content["accuracies"]


def test_compare_pairs_the_runs(runs: dict[str, Path]) -> None:
    out, _ = sala("compare", str(runs["protonet"]), str(runs["sala"]), "--episodes", "20", "--setting", "ren", "--json")
    first, second = json.loads(out)
    assert first["difference"] == {"mean": 0.0, "ci95": 0.0}
    assert second["difference"]["mean"] == pytest.approx(second["mean"] - first["mean"])
    text, _ = sala("compare", str(runs["protonet"]), str(runs["sala"]), "--episodes", "20")
    assert "difference to the first" in text


def test_a_protonet_does_not_mind_distractors(runs: dict[str, Path]) -> None:
    accuracies = [
        json.loads(sala("evaluate", str(runs["protonet"]), "--episodes", "10", "--distractors", c, "--json")[0])[
            "accuracies"
        ]
        for c in ("0", "5")
    ]
    assert accuracies[0] == accuracies[1]


def test_resume_of_a_finished_run_changes_nothing(runs: dict[str, Path]) -> None:
    before = (runs["sala"] / "last.safetensors").read_bytes()
    sala("train", "--resume", str(runs["sala"]))
    assert (runs["sala"] / "last.safetensors").read_bytes() == before


def test_options_of_a_method_are_set_and_kept(tmp_path: Path, glyphs: ImageStore) -> None:
    sala("train", *QUICK, "--set", "hidden=2", "--set", "metric=true", "--out", str(tmp_path / "run"))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["options"] == {"hidden": "2", "metric": "true"}


def test_demo_writes_a_page_that_stands_alone(
    tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.reproduction.demo.N_TEST_EPISODES", 30)
    out, _ = sala("demo", "--episodes", "8", "--out", str(tmp_path / "demo"))
    assert "SALA" in out
    assert "difference, paired over episodes" in out
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert page.count("<svg") == 2
    assert page.count("<img") == 5 + 60 + 30
    assert "selected" in page


def test_demo_replaces_an_earlier_demo_and_nothing_else(tmp_path: Path, glyphs: ImageStore) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(SalaError, match=r"thesis.txt.*choose another --out"):
        sala("demo", "--out", str(tmp_path / "mine"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--method", "salla"], "'salla'.*protonet"),
        (["train", "--dataset", "mnist"], "'mnist'.*glyphs, omniglot"),
        (["train", "--budget", "huge"], "budget.*cpu, paper"),
        (["train", "--set", "eta"], "name=value.*'eta'"),
        (["train", "--shots", "5"], "lower the shots"),
        (["train", "--ways", "700"], "700 ways.*lower the ways"),
        (["train", "--backbone", "vit"], "'vit'"),
        (["train", "--resume", "nowhere"], "nowhere is not a run"),
        (["train", "--method", "nowhere.py:Mine"], "nowhere.py"),
        (["evaluate", "nowhere"], "nowhere is not a run"),
        (["reproduce", "table1", "--arm", "salad"], "no variant 'salad'"),  # the option's old name
    ],
)
def test_mistakes_get_one_sentence(words: list[str], message: str, tmp_path: Path, glyphs: ImageStore) -> None:
    extra = ["--out", str(tmp_path / "run")] if words[0] == "train" and "--resume" not in words else []
    with pytest.raises(SalaError, match=message) as caught:
        sala(*words, *extra)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_an_unknown_test_setting_is_answered_with_the_known_ones(runs: dict[str, Path]) -> None:
    with pytest.raises(SalaError, match=r"'small'.*ren, large"):
        sala("evaluate", str(runs["sala"]), "--setting", "small")


@pytest.mark.parametrize("command", [[], ["train"], ["evaluate"], ["compare"], ["demo"], ["data"], ["data", "prepare"]])
def test_help_teaches(command: list[str]) -> None:
    out, _ = sala(*command, "--help")
    assert "Usage:" in out
    assert len(out.splitlines()) > 8


def test_methods_are_listed_with_their_papers_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.cli.console.out.width", 200)
    out, _ = sala("methods")
    rows = {line.split()[0]: " ".join(line.split()) for line in out.splitlines() if line[:1].islower()}
    assert rows["semi-inference"] == "semi-inference Ren et al., ICLR 2018 not used used no"
    assert rows["metagan"] == "metagan Zhang et al., NeurIPS 2018 used not used no"
    assert rows["tpn"].endswith("used used by --transductive")
    assert set(METHODS) <= set(rows)
    assert out.index("\nsala ") < out.index("beyond the paper's comparison") < out.index("\nmatchingnet ")
    assert "eta=5.0" in out
    assert "variant=A|B" in out


def test_samples_of_a_generator_are_a_picture(tmp_path: Path, glyphs: ImageStore) -> None:
    run = tmp_path / "gan"
    sala("train", "--method", "metagan", *QUICK, "--out", str(run))
    out, _ = sala("samples", str(run), "--tasks", "2", "--images", "4", "--scale", "1")
    assert out.strip() == str(run / "samples.png")
    with Image.open(run / "samples.png") as picture:
        pixels = np.asarray(picture)
    gap = 3
    assert pixels.shape == (2 * 28 + gap, 9 * 28 + 4 * gap + 3 * gap + 6 * gap)  # 5 labeled, 4 made up
    assert (pixels[:28, :28] == glyphs.images[first_image(glyphs)][..., 0]).all()
    line = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    assert {"loss", "loss_generator", "real_accuracy", "fake_accuracy"} <= set(line)


def first_image(store: ImageStore) -> int:
    protocol = PROTOCOLS["glyphs"]
    return int(fixed_sampler(store, protocol.validation, "test", protocol).rows(0).support[0])


def test_a_method_without_a_generator_has_no_samples(runs: dict[str, Path]) -> None:
    with pytest.raises(SalaError, match=r"no generator.*metagan"):
        sala("samples", str(runs["sala"]))
    with pytest.raises(SalaError, match=r"ending in \.png"):
        sala("samples", str(runs["sala"]), "--out", "picture.jpg")


def test_transductive_is_an_option_of_those_who_have_it(tmp_path: Path, glyphs: ImageStore) -> None:
    sala("train", "--method", "tpn", "--transductive", *QUICK, "--out", str(tmp_path / "run"))
    assert read_config(tmp_path / "run").options == {"transductive": "true"}
    with pytest.raises(SalaError, match="no option 'transductive'"):
        sala("train", "--method", "protonet", "--transductive", *QUICK, "--out", str(tmp_path / "no"))


def test_every_dataset_has_a_protocol() -> None:
    from sala.data import DATASETS

    assert list(DATASETS) and set(DATASETS) == set(PROTOCOLS)


def test_the_version_is_told() -> None:
    from importlib.metadata import version

    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout.strip()) == (0, f"sala {version('sala')}")


def loaded_by(*commands: list[str]) -> list[str]:
    """What of the large packages a new process has imported after these commands."""
    code = f"""
import sys
from sala.__main__ import main
for words in {commands}:
    sys.argv = ["sala", *words]
    try:
        main()
    except SystemExit as end:
        assert end.code in (0, 2), words
print("loaded:", *(name for name in ("torch", "numpy", "PIL", "scipy", "sklearn", "matplotlib") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["labl"]])
def test_what_needs_no_network_does_not_wait_for_pytorch(words: list[str]) -> None:
    assert loaded_by(words) == []


def test_help_and_wrong_options_of_every_command_do_not_wait_for_pytorch() -> None:
    commands = [[name] for name in COMMANDS] + [["data", name] for name in imported("data").commands]
    assert loaded_by(*([*words, "--help"] for words in commands)) == []
    assert loaded_by(*([*words, "--no-such-option"] for words in commands), ["serve", "a", "b", "--port", "x"]) == []


def test_help_lists_each_command_with_the_first_line_of_its_own() -> None:
    for name, (_, summary) in COMMANDS.items():
        assert imported(name).help.split("\n\n")[0] == summary
