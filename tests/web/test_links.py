"""Links that are put into the pool while the page runs."""

from __future__ import annotations

import os
from pathlib import Path

from PIL import Image

from sala.web.downloads import to_coco, to_report
from sala.web.session import Session


def test_no_download_follows_a_link_out_of_the_pool(session: Session, tmp_path: Path) -> None:
    """Neither a small picture in the report nor the size of what the link leads to."""
    Image.new("RGB", (333, 444), (1, 2, 3)).save(tmp_path / "private.png")
    path = session.project.path(next(i for i, item in enumerate(session.project.items) if item.root == "pool"))
    before = b"".join(to_report(session))
    path.unlink()
    path.symlink_to(tmp_path / "private.png")
    assert b'"width": 333' not in b"".join(to_coco(session))
    assert b"".join(to_report(session)).count(b"image/gif") > before.count(b"image/gif")  # a blank picture


def test_no_download_waits_for_a_pipe_in_the_place_of_an_image(session: Session) -> None:
    path = session.project.path(next(i for i, item in enumerate(session.project.items) if item.root == "pool"))
    path.unlink()
    os.mkfifo(path)
    assert b'"width": 0' in b"".join(to_coco(session))
