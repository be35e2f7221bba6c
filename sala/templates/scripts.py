"""The script of a page, inside the page, and the policy by which a browser runs that script and no other."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources

from markupsafe import Markup


@dataclass(frozen=True)
class Script:
    """JavaScript of this folder. A template inserts it as it is: `__html__` says that its text is no HTML to escape."""

    text: str

    @property
    def policy(self) -> str:
        """A content security policy: pictures and styles that are inside, this very script, nothing from elsewhere."""
        digest = base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode()
        return (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'"
        )

    def __html__(self) -> Markup:
        return Markup(self.text)


def open_script(name: str) -> Script:
    """Return the script `name`.js of this folder."""
    return Script((resources.files("sala.templates") / f"{name}.js").read_text(encoding="utf-8"))
