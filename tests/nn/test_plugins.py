"""Methods and backbones of installed packages are known by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from sala.cli.app import app
from sala.errors import SalaError
from sala.methods import build_method
from sala.methods.protonet import ProtoNet
from sala.nn import plugins
from sala.nn.backbones import Conv4, build_backbone


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "sala.methods": EntryPoint("theirs", "sala.methods.protonet:ProtoNet", "sala.methods"),
        "sala.backbones": EntryPoint("net", "sala.nn.backbones:Conv4", "sala.backbones"),
    }
    monkeypatch.setattr(plugins, "entry_points", lambda group: [points[group]])


def test_both_are_built_by_name() -> None:
    method = build_method("theirs", build_backbone("net", (28, 28, 1)))
    assert isinstance(method, ProtoNet)
    assert isinstance(method.backbone, Conv4)
    assert method.backbone.image_shape == (28, 28, 1)


def test_both_are_listed() -> None:
    listed = CliRunner().invoke(app, ["methods"]).stdout
    assert "theirs" in listed and "resnet12, identity, net" in listed


def test_a_wrong_name_is_answered_with_those_that_are_installed() -> None:
    with pytest.raises(SalaError, match="identity, net"):
        build_backbone("nett", (28, 28, 1))
    with pytest.raises(SalaError, match="theirs"):
        build_method("their", build_backbone("net", (28, 28, 1)))


@pytest.mark.parametrize("value", ["no_such_module:Class", "sala.nn.backbones:NoSuchClass"])
def test_an_entry_point_that_leads_nowhere_is_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("broken", value, group)])
    with pytest.raises(SalaError, match=f"{value}.*cannot be imported"):
        build_backbone("broken", (28, 28, 1))
    with pytest.raises(SalaError, match=f"{value}.*cannot be imported"):
        build_method("broken", Conv4(1, 28))


@pytest.mark.parametrize("given", [42, ["conv4"]])
def test_what_is_no_network_is_refused(given: object) -> None:
    with pytest.raises(SalaError, match=type(given).__name__):
        build_backbone(given, (28, 28, 1))  # type: ignore[arg-type]
