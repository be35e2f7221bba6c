"""Downloads of official dataset files by pooch: known checksum, HTTPS, a bound on size, a file that is whole or not there.

pooch writes to a temporary file, compares the checksum and renames. It cannot resume: a download that was cut begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pooch
from requests import Response
from requests.exceptions import RequestException

from sala.errors import SalaError, writing

MAX_BYTES = 1 << 30
N_RETRIES = 1  # pooch waits a second before it
TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16
LOOPBACK = {"localhost", "127.0.0.1", "::1"}  # no one listens on the way to this machine
Report = Callable[[str, int, int], None]  # file name, bytes done, bytes in all (0 where the server does not tell)


@dataclass(frozen=True)
class Download:
    """One official file."""

    name: str
    md5: str


OMNIGLOT_URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
OMNIGLOT = (
    Download("images_background.zip", "68d2efa1b9178cc56df9314c21c6e718"),
    Download("images_evaluation.zip", "6b91aef0f799c5bb55b94e3f2daec811"),
)
BY_HAND = {  # how to come by the files of a dataset that is not fetched
    "miniimagenet": "follow the links in github.com/renmengye/few-shot-ssl-public, or cut it from ImageNet",
    "tieredimagenet": "follow the links in github.com/renmengye/few-shot-ssl-public, or cut it from ImageNet",
    "tiny-tiered": "get cs231n.stanford.edu/tiny-imagenet-200.zip",
    "folder": "put your own images into folders named after the classes",
}


def downloads_of(dataset: str) -> tuple[Download, ...]:
    """The official files of a dataset that can be fetched; of another one, how to get it."""
    if dataset == "omniglot":
        return OMNIGLOT
    if dataset == "glyphs":
        raise SalaError("glyphs has nothing to fetch: it is built in; run `sala data prepare glyphs`")
    raise SalaError(
        f"{dataset} cannot be fetched: {BY_HAND[dataset]}, then run `sala data prepare {dataset} --root PATH`"
    )


def fetch(downloads: tuple[Download, ...], base_url: str, folder: Path, progress: Report | None = None) -> None:
    """Bring the files to `folder`. A file that is there with the right checksum is not fetched again.

    Parameters
    ----------
    downloads : tuple of Download
        The files, each with its checksum.
    base_url : str
        The address of the folder that has them, `https://...`.
    folder : Path
        Where they go.
    progress : callable, optional
        Called with the file name, the bytes done and the bytes in all (0 if unknown).

    Raises
    ------
    SalaError
        For an address that is not HTTPS, a server that fails, a wrong checksum, too many bytes, or a full disk.
    """
    _check_address(base_url)
    pooch.get_logger().setLevel("WARNING")  # else it prints a line per file beside our own progress
    registry = {download.name: f"md5:{download.md5}" for download in downloads}
    files = pooch.create(folder, f"{base_url.rstrip('/')}/", registry=registry, retry_if_failed=N_RETRIES)
    for download in downloads:
        _fetch_file(files, download, progress)


def _fetch_file(files: pooch.Pooch, download: Download, progress: Report | None) -> None:
    url, bar = files.get_url(download.name), _BoundedBar(download.name, progress)
    downloader = pooch.HTTPDownloader(
        progressbar=bar, chunk_size=CHUNK, timeout=TIMEOUT, hooks={"response": _check_redirect}
    )
    try:
        with writing(files.path):
            files.fetch(download.name, downloader=downloader)
    except RequestException as error:  # an OSError, as those of the disk are
        raise SalaError(f"{url} cannot be fetched ({_reason(error)}); check the address, or try later") from None
    except OSError as error:
        raise SalaError(
            f"{error.filename or files.path} cannot be written ({error.strerror}); choose another --out"
        ) from None
    except ValueError as error:  # pooch's word for a wrong checksum
        if "hash" not in str(error):
            raise
        raise SalaError(
            f"{url} is not the official file (its md5 is not {download.md5}); try again, or get it by hand and use "
            "`sala data prepare`"
        ) from None


def _check_redirect(response: Response, **_: object) -> None:
    """Before a redirect is followed."""
    _check_address(urljoin(response.url, response.headers.get("Location", "")))


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise SalaError(f"an address begins with https://; got {url!r}")


def _reason(error: RequestException) -> str:
    if error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    return "the connection failed or was cut"


class _BoundedBar:
    """The progress bar that pooch asks for. It reports to a function and ends a download that grows too large."""

    def __init__(self, name: str, report: Report | None):
        self._name, self._report = name, report
        self._done = self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, n_bytes: int) -> None:  # set when a server tells the length, before the first byte
        self._done, self._total = 0, n_bytes
        self._check(n_bytes)

    def update(self, n_bytes: int) -> None:
        self._done += n_bytes  # whole chunks: the last one is counted too large
        self._check(self._done - CHUNK)
        if self._report:
            self._report(self._name, min(self._done, self._total or self._done), self._total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing is held open."""

    def _check(self, n_bytes: int) -> None:
        if n_bytes > MAX_BYTES:
            raise SalaError(
                f"{self._name} is larger than {MAX_BYTES >> 20} MiB, far more than the official file; check the address"
            )
