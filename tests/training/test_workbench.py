"""What researchers turn: optimizer and schedule, backbones of their own, initial weights, longer runs, saved methods."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

from sala.data import ImageStore
from sala.episodes.protocol import OPTIMIZERS, SCHEDULES, Budget
from sala.errors import SalaError
from sala.methods import Method, build_method
from sala.methods.protonet import ProtoNet
from sala.nn.backbones import Identity, build_backbone
from sala.nn.base import Backbone
from sala.training.beginning import take_weights, training_sampler
from sala.training.config import read_config
from sala.training.keeper import Watch
from sala.training.loading import load
from sala.training.log import read_metrics
from sala.training.loop import TrainConfig, train
from sala.training.run import resume_run, start_run
from sala.training.saving import load_method, save
from tests.helpers.tasks import GLYPHS, config, random_task

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, in_channels, image_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 4, 3, stride=7)

    def forward(self, images):
        return self.conv(images).relu()
"""


def weights(method: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten().double() for tensor in method.state_dict().values()])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_begins_at_the_learning_rate_and_never_rises(schedule: str) -> None:
    made = TrainConfig(n_episodes=50, learning_rate=0.2, schedule=schedule)
    rates = [made.learning_rate_at(i) for i in range(50)]
    assert rates[0] == 0.2
    assert all(a >= b > 0 for a, b in pairwise(rates))
    if schedule in ("cosine", "linear"):
        assert rates[25] == pytest.approx(0.1)
    assert (rates[-1] == 0.2) == (schedule == "constant")


@pytest.mark.parametrize(
    "wrong", [{"learning_rate": 0}, {"weight_decay": -1}, {"optimizer": "lion"}, {"schedule": "steps"}]
)
def test_what_no_training_can_have_is_refused(wrong: dict[str, object]) -> None:
    for make in (lambda: TrainConfig(**wrong), lambda: replace(GLYPHS, **wrong)):  # type: ignore[arg-type]
        with pytest.raises(SalaError):
            make()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_stopped_run_goes_on_to_the_same_end_with_every_optimizer(
    optimizer: str, tmp_path: Path, glyphs: ImageStore
) -> None:
    protocol = replace(GLYPHS, optimizer=optimizer, schedule="cosine", learning_rate=0.01)
    asked, episodes = config("protonet", 6, protocol=protocol), iter(range(9))
    start_run(tmp_path / "whole", asked)
    start_run(tmp_path / "stopped", asked, Watch(should_stop=lambda: next(episodes) == 3))
    resume_run(tmp_path / "stopped")
    ends = [weights(load(tmp_path / name, weights="last")) for name in ("whole", "stopped")]
    assert torch.equal(*ends)
    assert read_config(tmp_path / "whole").protocol == protocol


def test_optimizers_end_at_different_weights(glyphs: ImageStore) -> None:
    ends = []
    for optimizer in OPTIMIZERS:
        torch.manual_seed(0)
        method = build_method("protonet", build_backbone("conv4", glyphs.image_shape))
        schedule = TrainConfig(n_episodes=3, optimizer=optimizer, weight_decay=0.1)
        train(method, training_sampler(config(), glyphs), schedule)
        ends.append(weights(method))
    assert not any(torch.equal(ends[i], ends[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_run_folder_from_before_these_options_opens_and_goes_on(tmp_path: Path, glyphs: ImageStore) -> None:
    episodes = iter(range(9))
    start_run(tmp_path / "run", config("protonet", 4), Watch(should_stop=lambda: next(episodes) == 2))
    path = tmp_path / "run" / "config.json"
    content = json.loads(path.read_text())
    for part, names in ((content, ("init", "extended")), (content["protocol"], ("optimizer", "schedule"))):
        for name in names:
            del part[name]
    path.write_text(json.dumps(content))
    assert resume_run(tmp_path / "run").episode == 4
    assert load(tmp_path / "run").backbone.out_dim == 64


def test_a_finished_run_is_extended_and_keeps_its_log(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config("protonet", 5))
    before = weights(load(tmp_path / "run", weights="last"))
    assert resume_run(tmp_path / "run", n_episodes=8).episode == 8
    kept = read_config(tmp_path / "run")
    assert (kept.budget.n_episodes, kept.extended) == (8, (5,))
    assert [line["episode"] for line in read_metrics(tmp_path / "run")] == [5, 8]
    assert not torch.equal(weights(load(tmp_path / "run", weights="last")), before)
    with pytest.raises(SalaError, match="more episodes"):
        resume_run(tmp_path / "run", n_episodes=8)


def test_a_run_begins_with_the_weights_of_another(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "first", config("protonet", 3))
    told: list[str] = []
    frozen = replace(GLYPHS, learning_rate=1e-30)
    asked = config("sala", 1, protocol=frozen, init=str(tmp_path / "first"))
    start_run(tmp_path / "second", asked, Watch(on_note=told.append))
    first, second = load(tmp_path / "first"), load(tmp_path / "second")
    pairs = zip(first.backbone.parameters(), second.backbone.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert any("fresh" in note for note in told)
    assert read_config(tmp_path / "second").init == str(tmp_path / "first")


def test_weights_are_taken_whether_distances_are_scaled_or_not(tmp_path: Path) -> None:
    shape = (28, 28, 1)
    plain = build_method("protonet", build_backbone("conv4", shape))
    scaled = build_method("protonet", build_backbone("conv4", shape, distance_scale=64))
    assert take_weights(scaled, save(plain, tmp_path / "plain")) == []
    assert torch.equal(weights(plain), weights(scaled))


def test_weights_of_another_backbone_are_refused_and_leave_no_folder(tmp_path: Path, glyphs: ImageStore) -> None:
    save(build_method("protonet", build_backbone("conv4", (28, 28, 3))), tmp_path / "colors")
    with pytest.raises(SalaError, match="do not fit this backbone"):
        start_run(tmp_path / "run", config("protonet", 2, init=str(tmp_path / "colors")))
    assert not (tmp_path / "run").exists()


def test_a_backbone_of_a_file_is_trained_and_opened_under_the_rule_for_methods(
    tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    start_run("run", config("relationnet", 2, backbone="net.py:Net"))
    method = load("run")
    assert (method.backbone.out_dim, method.backbone.out_map) == (64, (4, 4, 4))
    (tmp_path / "net.py").write_text(NET + "\nprint('changed')\n")
    with pytest.raises(SalaError, match="not run in its present form"):
        load("run")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1", "got int"),
        ("return images.mean()", "got \\[\\]"),
        ("return images @ 1", "line 7"),
        ("", "got None"),
    ],
)
def test_a_backbone_that_does_not_work_is_told_why(body: str, message: str, tmp_path: Path) -> None:
    code = f"""
from torch import nn

class Net(nn.Module):
    def __init__(self, *_): super().__init__()
    def forward(self, images):
        {body or "pass"}
"""
    (tmp_path / "net.py").write_text(code)
    with pytest.raises(SalaError, match=message):
        build_backbone(f"{tmp_path}/net.py:Net", (28, 28, 1))


def test_identity_takes_pixels_and_features() -> None:
    pixels, features = build_backbone("identity", (4, 4, 3)), build_backbone("identity", (7,))
    assert torch.equal(pixels(torch.ones(2, 3, 4, 4)), torch.ones(2, 48))
    assert features.out_dim == 7
    with pytest.raises(SalaError, match="identity"):
        build_backbone("conv4", (7,))


class Projection(Backbone):
    def __init__(self, d: int):
        super().__init__()
        self.out_dim, self.linear = 3, nn.Linear(d, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(features)
        return out


class Sharp(ProtoNet):
    def __init__(self, backbone: Backbone, *, factor: float = 1.0):
        super().__init__(backbone)
        self.factor = nn.Parameter(torch.tensor(factor))


@pytest.mark.parametrize("name", ["sala", "relationnet", "maml"])
def test_a_saved_method_gives_the_same_answers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", (28, 28, 1), distance_scale=32), selection_share=0.5).eval()
    again = load_method(save(method, tmp_path / "saved"))
    assert torch.equal(weights(again), weights(method))
    assert again.selection_share == 0.5
    images = torch.rand(3, 1, 28, 28)
    assert torch.equal(again.embed_images(images), method.embed_images(images))


def test_a_method_and_a_backbone_of_ones_own_are_saved_too(tmp_path: Path) -> None:
    method = build_method(Sharp, Projection(6), {"factor": 2.5}).eval()
    folder = save(method, tmp_path / "saved")
    with pytest.raises(SalaError, match="backbone"):
        load_method(folder)
    again = load_method(folder, backbone=Projection(6))
    task = random_task(dtype=torch.float32)
    assert torch.equal(again.classify(task), method.classify(task))
    assert again.state_dict()["factor"] == 2.5


def test_what_cannot_be_saved_or_opened_is_told_why(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match="build_method"):
        save(Sharp(Identity(2)), tmp_path / "x")
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SalaError, match="something else"):
        save(build_method("protonet", Identity(2)), tmp_path)
    with pytest.raises(SalaError, match="no saved method"):
        load_method(tmp_path)
    folder = save(build_method("protonet", Identity(2)), tmp_path / "saved")
    (folder / "method.json").write_text('{"format": 1}')
    with pytest.raises(SalaError, match="damaged"):
        load_method(folder)


class Positional(Method):
    def __init__(self, backbone: Backbone, threshold: float = 0.5):
        super().__init__(backbone)


class Needed(Method):
    def __init__(self, backbone: Backbone, threshold: float):
        super().__init__(backbone)


@pytest.mark.parametrize(
    ("cls", "options"), [(Positional, {"threshold": 0.7}), (Needed, {}), (Needed, {"threshold": 1})]
)
def test_options_that_are_not_keyword_only_are_told_so(cls: type[Method], options: dict[str, float]) -> None:
    with pytest.raises(SalaError, match="keyword-only"):
        build_method(cls, Identity(2), options)


def test_small_classes_shrink_the_test_of_a_run_and_the_record_has_it(tmp_path: Path, glyphs: ImageStore) -> None:
    told: list[str] = []
    asked = config("protonet", 1, protocol=replace(GLYPHS, test={"many": replace(GLYPHS.validation, n_query=40)}))
    asked = replace(asked, budget=Budget(1, 1, 2))
    start_run(tmp_path / "run", asked, Watch(on_note=told.append))
    kept = read_config(tmp_path / "run").protocol.test["many"]
    smallest = min(entry.count for entry in glyphs.classes if entry.split != "train")
    assert kept.n_shot + kept.n_query + kept.n_unlabeled == smallest
    assert len(told) == 1
    with pytest.raises(SalaError, match="lower the unlabeled"):
        start_run(tmp_path / "strict", asked, fit=())
