"""Downloads: with resume, a bound on size, and the checksum of the official files."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sala.errors import SalaError, writing

MAX_BYTES = 1 << 30
N_TRIES = 3
NETWORK_ERRORS = (  # what is worth another try; other OSErrors are of the disk
    *(ConnectionError, TimeoutError, ssl.SSLError, urllib.error.URLError, http.client.HTTPException),
    ValueError,  # a server's headers, or an address, that make no sense
)
CHUNK = 1 << 16
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
    """Bring the files to `folder`. What is there and right stays; what is half there is continued."""
    if not base_url.startswith(("http://", "https://")):
        raise SalaError(f"an address begins with http:// or https://; got {base_url!r}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for download in downloads:
            if not _is_there(folder / download.name, download):
                _fetch_file(download, f"{base_url.rstrip('/')}/{download.name}", folder, progress)
    except OSError as error:
        raise SalaError(
            f"{error.filename or folder} cannot be written ({error.strerror}); choose another --out"
        ) from None


def _is_there(path: Path, download: Download) -> bool:
    return path.is_file() and md5(path) == download.md5


def _fetch_file(download: Download, url: str, folder: Path, progress: Report | None) -> None:
    part = folder / f"{download.name}.part"
    _fetch_with_retries(url, part, progress)
    found = md5(part)
    if found != download.md5:
        part.unlink()
        raise SalaError(
            f"{url} is not the official file (md5 {found}, should be {download.md5}); try again, or get it by hand and use "
            "`sala data prepare`"
        )
    part.replace(folder / download.name)


def _fetch_with_retries(url: str, part: Path, progress: Report | None) -> None:
    for attempt in range(N_TRIES):
        try:
            return _fetch_once(url, part, progress)
        except SalaError:
            part.unlink(missing_ok=True)  # too large: nothing to continue
            raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # nothing is left to fetch: the part is whole, or wrong, which the checksum will tell
                return None
            raise SalaError(f"{url} answered {error.code} {error.reason}; check the address, or try later") from None
        except NETWORK_ERRORS as error:
            if attempt == N_TRIES - 1:
                raise SalaError(f"{url} cannot be fetched ({_reason(error)}); {_advice(part)}") from None
    return None


def _reason(error: Exception) -> object:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return reason.strerror or reason if isinstance(reason, OSError) else reason


def _advice(part: Path) -> str:
    if part.is_file():
        return f"the first {part.stat().st_size >> 10:,} KiB are kept, run the command again to continue"
    return "check the address and your connection"


def _fetch_once(url: str, part: Path, progress: Report | None) -> None:
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=30) as response:
        if response.status != 206:  # the server sends the whole file
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else 0
        _check_bound(max(have, total), url)
        with writing(part), part.open("ab" if have else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                _check_bound(have, url)
                if progress:
                    progress(part.name.removesuffix(".part"), have, total)
    if have < total:
        raise ConnectionError(f"the connection ended {total - have:,} bytes early")


def _check_bound(n_bytes: int, url: str) -> None:
    if n_bytes > MAX_BYTES:
        raise SalaError(
            f"{url} is larger than {MAX_BYTES >> 20} MiB, far more than the official file; check the address"
        )


def md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
