"""The page as a Starlette app: static files, images by number, JSON, and downloads.

`security` decides who may ask, `api` what is said. No request holds a path: an image is a number, decoded and encoded anew, so
that no byte of a file reaches the browser as it is. An invalid change is answered by 400 and a sentence; one that could not be
written to disk by 500. What computes or waits for the disk runs in threads, never in the event loop.
"""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from importlib import resources
from typing import Any, TypeVar

from anyio import CapacityLimiter, current_time, sleep, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sala.errors import SalaError
from sala.web.api import StateAnswer, act, asked_share, describe_items, describe_map, progress_of, to_json
from sala.web.checks import Checks
from sala.web.details import LazyDetails
from sala.web.downloads import DOWNLOADS, STATE
from sala.web.groups import LazyGroups
from sala.web.journal import NotSavedError
from sala.web.security import UPLOAD, Guard, Refusal, Security
from sala.web.session import Session
from sala.web.thumbnails import FULL, THUMB, LazyMap, Pictures
from sala.web.uploads import take_upload

T = TypeVar("T")
FOLLOW_SECONDS, FOLLOW_STEP_SECONDS = (
    20.0,
    0.1,
)  # how long a page waits for changes of others, how often they are looked for
JSON = "application/json"
KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


class Page:
    """The routes of one session."""

    def __init__(self, session: Session, title: str = "pool", *, compress: bool = False):
        self.session, self.title, self.compress = session, title, compress
        self.run_id = secrets.token_hex(4)  # image numbers hold for this run: so do their addresses, and changes
        self.pictures, self.map, self.details = Pictures(session), LazyMap(session), LazyDetails(session)
        self.groups = LazyGroups(session, self.details)
        self.checks = Checks(session)
        self._state, self._static = StateAnswer(session, self.run_id), static_files()
        # Each kind of work has threads of its own, so that no fit and no slow image keeps a correction waiting.
        self._saving, self._fitting, self._mapping, self._decoding = map(CapacityLimiter, (8, 1, 1, 4))
        self.is_ending = False  # who waits for changes is answered then
        # Those that wait for a turn cost no memory, and do not delay the end.
        self._downloading, self._uploading = CapacityLimiter(2), CapacityLimiter(1)

    def app(self, guard: Guard) -> Security:
        """Return the ASGI app, behind the access rules."""
        app = Starlette(routes=self._routes(), exception_handlers=HANDLERS)
        app.state.session = self.session
        app.router.redirect_slashes = False
        return Security(app, guard)

    def _routes(self) -> list[Route]:
        return [
            *(Route(path, self._get_static) for path in self._static),
            Route("/api/items", self._get_items),
            Route("/api/state", self._get_state),
            Route("/api/changes", self._get_changes),
            Route("/api/map", self._get_map),
            Route("/api/dates", partial(self._get_detail, self.details.dates)),
            Route("/api/groups", partial(self._get_detail, self.groups.describe)),
            Route("/api/check", partial(self._get_detail, self.checks.describe)),
            Route("/api/turned", partial(self._get_detail, self.checks.turned)),
            Route("/api/suspects", partial(self._get_detail, self.checks.suspects)),
            Route("/api/progress", self._get_progress),
            Route("/api/act", self._post_act, methods=["POST"]),
            Route(UPLOAD, self._post_upload, methods=["POST"]),
            Route("/thumb/{number}", partial(self._get_picture, THUMB)),
            Route("/image/{number}", partial(self._get_picture, FULL)),
            *(Route(f"/download/{name}", self._get_download) for name in DOWNLOADS),
        ]

    async def _get_static(self, request: Request) -> Response:
        return await self._answer(request, *self._static[request.scope["path"]])

    async def _get_items(self, request: Request) -> Response:
        return await self._answer(request, to_json(describe_items(self.session, self.title, self.run_id)), JSON)

    async def _get_state(self, request: Request) -> Response:
        return await self._answer(request, await in_thread(self._fitting, self._state.content), JSON)

    async def _get_changes(self, request: Request) -> Response:
        """Answer as soon as the state is another than version `after`, or after a while: so pages follow each other."""
        after, until = request.query_params.get("after"), current_time() + FOLLOW_SECONDS
        while str(self.session.version) == after and not self.is_ending and current_time() < until:
            await sleep(FOLLOW_STEP_SECONDS)
        return Response(to_json({"run": self.run_id, "version": self.session.version}), media_type=JSON)

    async def _get_map(self, request: Request) -> Response:
        return await self._answer(request, to_json(describe_map(await in_thread(self._mapping, self.map.points))), JSON)

    async def _get_detail(self, describe: Callable[[], dict[str, Any]], request: Request) -> Response:
        return await self._answer(request, to_json(await in_thread(self._mapping, describe)), JSON)

    async def _get_progress(self, request: Request) -> Response:
        goal = asked_share(request.query_params.get("goal", "0.95"))
        told = await in_thread(self._fitting, partial(progress_of, self.session, goal))
        return await self._answer(request, to_json(told), JSON)

    async def _post_act(self, request: Request) -> Response:
        """Answer once the change is on disk. Its effect on the labels is `/api/state`, of which one serves several changes."""
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise SalaError("the request is not JSON; reload the page") from None
        version = await in_thread(self._saving, partial(act, self.session, body, self.run_id))
        return Response(to_json({"saved": version}), media_type=JSON)

    async def _post_upload(self, request: Request) -> Response:
        """Answer once the labels of a file are on disk, with what was taken."""
        async with self._uploading:
            content = await request.body()
            taken = await to_thread.run_sync(take_upload, self.session, content)
        return Response(to_json(taken), media_type=JSON)

    async def _get_picture(self, side: int, request: Request) -> Response:
        number = request.path_params["number"]
        is_number = number.isascii() and number.isdigit() and len(number) < 10
        if not is_number or int(number) >= len(self.session.project.items):
            raise Refusal(HTTPStatus.NOT_FOUND, "There is no such image.")
        try:
            content = await in_thread(self._decoding, partial(self.pictures.jpeg, int(number), side))
        except SalaError as error:
            raise Refusal(HTTPStatus.NOT_FOUND, str(error)) from None
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})

    async def _get_download(self, request: Request) -> Response:
        name = request.scope["path"].rpartition("/")[2]
        blocks, kind = DOWNLOADS[name]
        is_head = request.method == "HEAD"  # then nothing is computed
        turn = self._saving if name == STATE else self._downloading  # what was saved waits for nothing
        content = [] if is_head else await in_thread(turn, partial(blocks, self.session))
        return StreamingResponse(content, 200, {"Content-Disposition": f'attachment; filename="{name}"'}, kind)

    async def _answer(self, request: Request, content: bytes, kind: str) -> Response:
        headers = {"Content-Type": kind}
        if self.compress and len(content) > 4096 and "gzip" in request.headers.get("accept-encoding", ""):
            content = await to_thread.run_sync(gzip.compress, content, 3)
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers)


async def in_thread(limiter: CapacityLimiter, work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=limiter)


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of sala/web/static and their content types, by address."""
    folder = resources.files("sala.web") / "static"
    files = [(file, KINDS.get(file.name.rpartition(".")[2])) for file in folder.iterdir()]
    found = {f"/{file.name}": (file.read_bytes(), kind) for file, kind in files if kind}
    return {"/": found.pop("/index.html"), **found}


async def _refused(request: Request, refusal: Any) -> Response:
    return refusal.answer()  # type: ignore[no-any-return]


async def _not_there(request: Request, error: Any) -> Response:
    """Answer 404 and 405, as Starlette's router raises them."""
    answer = Refusal(HTTPStatus(error.status_code), f"There is no such page ({error.detail}).").answer()
    answer.headers.update(error.headers or {})
    return answer


async def _invalid(request: Request, error: Exception) -> Response:
    return Response(to_json({"error": str(error)}), HTTPStatus.BAD_REQUEST, media_type=JSON)


async def _not_saved(request: Request, error: Exception) -> Response:
    is_stopped = request.app.state.session.stopped is not None
    content = to_json({"error": str(error), "stopped": is_stopped})
    return Response(content, HTTPStatus.INTERNAL_SERVER_ERROR, media_type=JSON)


async def _failed(request: Request, error: Exception) -> Response:
    """Starlette raises the error again, for `Security` to log."""
    content = to_json({"error": "the server failed; its terminal says why"})
    return Response(content, HTTPStatus.INTERNAL_SERVER_ERROR, media_type=JSON)


HANDLERS: dict[Any, Any] = {
    Refusal: _refused,
    HTTPException: _not_there,
    SalaError: _invalid,
    NotSavedError: _not_saved,
    Exception: _failed,
}
