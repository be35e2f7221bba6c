"""The page's server: a socket, uvicorn on it, and its end."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sala.errors import SalaError
from sala.web.session import Session

try:
    import uvicorn

    from sala.web.app import Page
    from sala.web.connection import Connection
    from sala.web.security import Guard
except ImportError as error:
    if (error.name or "").partition(".")[0] == "sala":
        raise
    raise SalaError(f"the page needs {error.name}, which is not installed; run: pip install 'sala[photos]'") from None

BACKLOG = 2048  # connections that wait to be accepted
KEEP_ALIVE_SECONDS, LAST_ANSWERS_SECONDS = 60, 3


class PageServer:
    """Serves one session over HTTP.

    Parameters
    ----------
    session : Session
        What the page shows and changes.
    host, port : str, int
        Where to listen; port 0 takes a free one. Beyond loopback the address holds a token.
    title : str
        The name that the page shows.

    Raises
    ------
    SalaError
        If nothing can listen there: the port is in use, or not allowed.
    """

    def __init__(self, session: Session, host: str = "127.0.0.1", port: int = 8000, title: str = "pool"):
        self.session = session
        self._socket = _listening(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.guard = Guard.of(host, self.port)
        self.page = Page(session, title, compress=self.guard.token is not None)  # on one machine it only costs time
        self._server = _Uvicorn(
            uvicorn.Config(
                self.page.app(self.guard),
                http=Connection,
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                log_level="critical",  # the terminal is for the user; faults of the app are logged by Security
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=LAST_ANSWERS_SECONDS,
            )
        )

    @property
    def address(self) -> str:
        """The URL to open."""
        return self.guard.address

    def run(self) -> None:
        """Serve until `stop` is called. Answers that are under way get a few seconds more; changes end on disk."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `run`, from any thread or signal handler, as often as one likes."""
        self.page.is_ending = True
        self._server.should_exit = True

    def close(self) -> None:
        """Free the port of a server that does not run."""
        self._socket.close()

    def rest(self) -> None:
        """Wait for fit, map and search under way, and start no other: PyTorch aborts a process that ends meanwhile."""
        self.page.checks.rest()  # first: a search asks for a fit
        self.session.rest()
        self.page.map.rest()


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield


def check_address(host: str, port: int) -> None:
    """Raise SalaError if nothing can listen there. Asked before the long work begins."""
    _listening(host, port).close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named: an answer is two writes, and the second would
    # wait 40 ms for the first to be acknowledged
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise SalaError(_why_not(host, port, error)) from None
    return listening


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use, perhaps by another `sala serve`; choose another with --port, or 0 for any"
    if error.errno == errno.EACCES:
        return f"port {port} may not be opened by this user; choose one above 1023 with --port"
    return f"cannot listen on {host}, port {port} ({error.strerror or error}); choose another --host"
