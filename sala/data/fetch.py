"""Downloads: with resume, a bound on size, and the checksum of the official files."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sala.errors import SalaError

MAX_BYTES = 1 << 30
N_TRIES = 3
CHUNK = 1 << 16


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


def fetch(
    downloads: tuple[Download, ...],
    base_url: str,
    folder: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Bring the files to `folder`. What is there and right stays; what is half there is continued."""
    folder.mkdir(parents=True, exist_ok=True)
    for download in downloads:
        target = folder / download.name
        if target.is_file() and md5(target) == download.md5:
            continue
        part = folder / f"{download.name}.part"
        _fetch_with_retries(f"{base_url.rstrip('/')}/{download.name}", part, download, progress)
        found = md5(part)
        if found != download.md5:
            part.unlink()
            raise SalaError(
                f"{download.name} from {base_url} is not the official file (md5 {found}, should be {download.md5}); try "
                "again, or get it by hand and use `sala data prepare`"
            )
        part.replace(target)


def _fetch_with_retries(
    url: str, part: Path, download: Download, progress: Callable[[str, int, int], None] | None
) -> None:
    for attempt in range(N_TRIES):
        try:
            return _fetch_once(url, part, download, progress)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing is left to fetch: the part is whole, or wrong, which the checksum will tell
                return None
            raise SalaError(f"{url} answered {error.code} {error.reason}; check the address, or try later") from None
        except (OSError, http.client.HTTPException) as error:
            if attempt == N_TRIES - 1:
                raise SalaError(
                    f"{url} cannot be fetched ({error}); what has arrived is kept, run the command again to continue"
                ) from None
    return None


def _fetch_once(url: str, part: Path, download: Download, progress: Callable[[str, int, int], None] | None) -> None:
    have = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=30) as response:
        if response.status != 206:  # the server sends the whole file
            have = 0
        total = have + int(response.headers.get("Content-Length") or 0)
        if total > MAX_BYTES:
            raise SalaError(f"{url} is {total >> 20} MiB, far more than the official file; it is not fetched")
        with part.open("ab" if have else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                if have > MAX_BYTES:
                    raise SalaError(f"{url} sends more than {MAX_BYTES >> 20} MiB; it is not the official file")
                if progress:
                    progress(download.name, have, total)
        if total and have < total:
            raise http.client.IncompleteRead(b"", total - have)


def md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
