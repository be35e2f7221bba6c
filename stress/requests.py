"""Hostile requests to a live page on this machine.

After each the page must still answer, its state must be as it was unless the request had the right to change it, and nothing
may be on its stderr. Each lane keeps one page, and takes a new one when that was harmed.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stress import mutations
from stress.asking import Answer, ask
from stress.crowds import CROWDS
from stress.grammars import edited
from stress.page import Page
from stress.raw import ODD_REQUESTS, first_status, sent
from stress.trials import Trial
from stress.world import World

LABEL = {"do": "label", "items": [9], "to": 0}
POST = (
    "POST /api/act HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n"
)
HOSTS = (
    *(
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        "a@127.0.0.1:{port}",
        "127.0.0.1:{port}/x",
    ),
    *(
        "localhost.evil.example:{port}",
        "127.0.0.1:{port}, evil.example",
        "2130706433:{port}x",
        "0.0.0.0:1",
        "[::1",
        "\0",
    ),
)
ORIGINS = (
    *(
        "http://evil.example",
        "null",
        None,
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "",
        "http://127.0.0.1:{port}/",
    ),
    *("http://127.0.0.1:{port}.evil.example", "HTTP://127.0.0.1:{port}", "file://"),
)
KINDS = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", None),
    *("application/jsonp", "text/plain; application/json"),
)
LENGTHS = (None, "-1", "1e3", "0x10", "+5", " ", "9" * 5000, str(10**8), str(2**63), "5, 5")
PATHS = (
    *(
        "/../../etc/passwd",
        "/thumb/../../../etc/passwd",
        "/thumb/..%2f..%2fetc/passwd",
        "/%2e%2e/state.jsonl",
        "/thumb/-1",
    ),
    *(
        "/thumb/36",
        "/thumb/999999999",
        "/thumb/1e1",
        "/thumb/",
        "/image/%D9%A3",
        "/web/app.js",
        "//evil.example/",
        "/~",
    ),
    *(
        "/pool/red-0.png",
        "/thumb/0/../../x",
        "//[x",
        "/app.js/..",
        "/journal.py",
        "/download/",
        "/download/../state.jsonl",
    ),
    *(
        "/api/",
        "/api/act",
        "/thumb/0x0",
        "/thumb/00000000000",
        "/image/1%00",
        "/.git/config",
        "/state.jsonl",
        "/%",
        "/%ff",
    ),
    *("/" + "a" * 60_000, "/thumb/" + "9" * 5000, "/?token=" + "x" * 9000, "/app.js?../../x", "/thumb/1;2"),
    "\\..\\..\\etc\\passwd",
)
METHODS = ("PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "PROPFIND", "get", "X" * 300)


@dataclass
class _Live:
    page: Page
    state: Path
    n_said: int  # characters on stderr before the first request


_live: dict[str, _Live] = {}  # of this process, which is a lane


def live_page(world: World) -> _Live:
    """A page with one correction, so that there is something to lose."""
    if "page" not in _live or _live["page"].page.child.poll() is not None:
        folder = Path(tempfile.mkdtemp(dir=world.folder))
        (folder / "w").mkdir()
        page = Page(world, folder / "w" / "state.jsonl", folder)
        n_said = len(page.child.said("err"))
        page.ask("/api/act", LABEL)
        _live["page"] = _Live(page, folder / "w" / "state.jsonl", n_said)
    return _live["page"]


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    made = [Trial("requests", name, partial(_attempt, world, check)) for name, check in _cases(world.seed, quick=quick)]
    made += [Trial("requests", name, partial(_attempt, world, check)) for name, check in CROWDS.items()]
    return [*made, Trial("requests", "whoever has not the token", partial(_without_token, world))]


Check = Callable[[Page], str | None]


def _attempt(world: World, check: Check, folder: Path) -> str | None:
    live = live_page(world)
    before = live.state.read_bytes()
    problem = check(live.page)
    if problem is None and live.page.child.poll() is None:  # a check ends the page if its change was right
        problem = _harm(live, before)
    if problem is not None:  # the next one gets a page that is sound
        live.page.end()
        _live.clear()
    return problem


def _harm(live: _Live, before: bytes) -> str | None:
    """What a request must not do."""
    answer = live.page.ask("/api/state")
    if answer is None or answer.status != 200:
        return f"the page no longer answers ({answer and answer.status})"
    if live.state.read_bytes() != before:
        return "the state has changed"
    if said := live.page.child.said("err")[live.n_said :].strip():
        return f"the page said on stderr: {said[-200:]}"
    return None


def _cases(seed: int, *, quick: bool) -> Iterator[tuple[str, Check]]:
    for i, host in enumerate(HOSTS):
        yield f"host {i} for the state: {host!r}", partial(_refused, {403, 400}, "/api/state", None, Host=host)
        yield f"host {i} for a change: {host!r}", partial(_refused, {403, 400}, "/api/act", LABEL, Host=host)
    for i, origin in enumerate(ORIGINS):
        yield f"origin {i}: {origin!r}", partial(_refused, {403}, "/api/act", LABEL, Origin=origin)
    for kind in KINDS:
        yield f"a body of {kind!r}", partial(_refused, {415}, "/api/act", LABEL, Content_Type=kind)
    for length in LENGTHS:
        yield (
            f"a length of {str(length)[:20]!r}",
            partial(_refused, {411, 413, 400}, "/api/act", b"", Content_Length=length),
        )
    yield (
        "a chunked body",
        partial(_refused, {411, 400}, "/api/act", b"", Content_Length=None, Transfer_Encoding="chunked"),
    )
    for path in PATHS:
        yield f"GET {path[:60]!r}", partial(_no_such_page, path)
    for method in METHODS:
        yield f"method {method[:20]!r}", partial(_not_known, method)
    for i, body in enumerate(_bodies(seed, 40 if quick else 400)):
        yield f"body {i}: {body[:60]!r}", partial(_odd_body, body)
    for name, raw in ODD_REQUESTS.items():
        yield name, partial(_raw, raw, 0)
    for number in range(40 if quick else 600):
        yield f"altered request {number}", partial(_raw, b"", seed * 100_000 + number + 1)


def _refused(statuses: set[int], path: str, body: Any, page: Page, **headers: str | None) -> str | None:
    own = {name: value and value.format(port=page.port) for name, value in headers.items()}
    try:
        answer = ask(page.port, path, body, None, **own)
    except (ValueError, UnicodeError):  # a header that this client does not send
        return None
    except OSError:
        return None  # hung up on: refused all the same
    return None if answer.status in statuses else f"answered {answer.status}: {answer.body[:80]!r}"


def _without_token(world: World, folder: Path) -> str | None:
    """On another interface than loopback nothing is served without the token of the printed address."""
    page = Page(world, folder / "state.jsonl", folder, more=["--host", "0.0.0.0"])
    wrong = ("", "?token=", "?token=x", f"?token={page.token[:-1]}", f"?token={page.token}x", f"?TOKEN={page.token}")
    places = ("/", "/api/state", "/thumb/0", "/app.js", "/download/labels.csv")
    cookies = (None, f"sala-{page.port}=x", f"sala-{page.port}={page.token[::-1]}", "\x01;;=")
    answers = [page.ask(place + said, Cookie=cookie) for place in places for said in wrong for cookie in cookies]
    answers += [page.ask("/api/act", LABEL, Cookie=cookie) for cookie in cookies]
    good = page.ask(f"/?token={page.token}")
    page.end()
    if good is None or good.status != 303:
        return f"the printed address is answered with {good and good.status}"
    let_in = [answer for answer in answers if answer is None or answer.status != 403]
    return f"{len(let_in)} of {len(answers)} requests without the token were not refused" if let_in else None


def _no_such_page(path: str, page: Page) -> str | None:
    raw = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nConnection: close\r\n\r\n".encode()
    answer = sent(page.port, raw)
    is_page = path.startswith(("/?", "/app.js?"))
    good = {200} if is_page else {404, 405, 400, 403, 414}
    return None if first_status(answer) in good else f"answered {answer[:80]!r}"


def _not_known(method: str, page: Page) -> str | None:
    raw = f"{method} / HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nConnection: close\r\n\r\n".encode()
    answer = sent(page.port, raw)
    return None if first_status(answer) in {501, 405, 400, None} else f"answered {answer[:80]!r}"


def _bodies(seed: int, n: int) -> Iterator[bytes]:
    """JSON with values of every other kind, and what is no JSON."""
    yield from (
        b"",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'"x"',
        b"\xff\xfe",
        b"{}" * 9,
        b"1e999",
        b"NaN",
        b"\0" * 99,
    )
    rng = random.Random(f"bodies {seed}")
    for _ in range(n):
        body = rng.choice(
            (LABEL, {"do": "add", "name": "x"}, {"do": "rename", "class": 0, "name": "y"}, {"do": "undo"})
        )
        content = json.dumps(edited(dict(body), rng)).encode("utf-8", "surrogatepass")
        yield content if rng.random() < 0.8 else mutations.altered(content, ".json", [], rng)


def _odd_body(body: bytes, page: Page) -> str | None:
    """Refused with a sentence, or a change that is saved; the state is put back by undo."""
    try:
        answer = ask(page.port, "/api/act", body[: 1 << 20])
    except OSError as error:
        return f"no answer: {error}"
    if answer.status == 200:
        page.end()  # an event that made sense: the next request gets a new page
        return None
    is_sentence = answer.status == 400 and isinstance(_json(answer).get("error"), str)
    return None if is_sentence or answer.status == 413 else f"answered {answer.status}: {answer.body[:80]!r}"


def _json(answer: Answer) -> dict[str, Any]:
    try:
        content = answer.json
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _raw(raw: bytes, number: int, page: Page) -> str | None:
    if number:
        rng = random.Random(number)
        good = POST.format(port=page.port) + json.dumps(LABEL)  # without the page's Origin: it has no right
        raw = mutations.altered(good.encode(), "", [b"GET / HTTP/1.1\r\n\r\n"], rng)
    answer = sent(page.port, raw.replace(b"{port}", str(page.port).encode()))
    status = first_status(answer)
    if b"Traceback" in answer:
        return f"answered with a traceback: {answer[:200]!r}"
    return "answered 500" if status == 500 else None
