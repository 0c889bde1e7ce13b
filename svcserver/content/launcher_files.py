"""The launcher's files with their checksums, for players who do not have the launcher yet.

The files are hashed once, when the server starts. A file that changes later is not served.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from attrs import field, frozen
from twisted.logger import Logger

from svcserver.edge.launcher_update import LONGEST, SUFFIX
from svcserver.kernel import json
from svcserver.kernel.refusals import Missing, Unavailable

log = Logger()

URL = "/content/v1/launcher"
OFFER = ("version", "signature", "certificate")  # what launchers check before they update
MOST, MOST_BYTES = 16, 512 * 1024 * 1024
_NAME = re.compile(r"svc[-_]launcher[A-Za-z0-9_.+-]{0,80}\.(?:whl|pyz|zip|exe|msi|AppImage)\Z")


@frozen
class LauncherFile:
    """A launcher file, which is served only if it has not changed since it was hashed."""

    path: Path
    size: int
    changed: int  # nanoseconds
    sha256: str
    offer: Mapping[str, str] = field(factory=dict)  # version and signature; empty if not signed

    @property
    def etag(self) -> str:
        """Return the ETag of the file's content, including the quotes."""
        return f'"{self.sha256}"'

    def open(self) -> BinaryIO:
        """Return the open file; raises Unavailable if the file has changed."""
        try:
            file = self.path.open("rb")
        except OSError:
            raise Unavailable(code="file_unavailable") from None
        state = os.fstat(file.fileno())
        if (state.st_size, state.st_mtime_ns) != (self.size, self.changed):
            file.close()
            raise Unavailable(code="file_unavailable")
        return file


@frozen
class LauncherFiles:
    """The served launcher files by name; empty if no folder is set."""

    files: Mapping[str, LauncherFile] = field(factory=dict)

    @classmethod
    def from_folder(cls, folder: Path | None) -> LauncherFiles:
        """Read ``folder``; an unreadable file is ignored with a warning."""
        files: dict[str, LauncherFile] = {}
        for path in sorted(folder.iterdir()) if folder is not None else ():
            if len(files) < MOST and _NAME.match(path.name):
                file = _read(path)
                if file is not None:
                    files[path.name] = file
        return cls(files)

    def named(self, raw: bytes) -> LauncherFile:
        """Return the file with this name; raises Missing."""
        file = self.files.get(raw.decode("latin-1"))
        if file is None:
            raise Missing(code="not_found")
        return file

    def body(self, *, on_windows: bool = False) -> bytes:
        """Return the JSON list of files with size and checksum.

        The files for the visitor's system come first.
        """
        names = sorted(self.files, key=lambda name: ("windows" in name) != on_windows)
        return json.dump(
            {
                "files": [
                    {
                        "name": name,
                        "url": f"{URL}/{name}",
                        "size": file.size,
                        "sha256": file.sha256,
                        **file.offer,
                    }
                    for name in names
                    for file in (self.files[name],)
                ]
            }
        )


def _read(path: Path) -> LauncherFile | None:
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode) or not 0 < state.st_size <= MOST_BYTES:
            raise OSError(f"the file must be a regular file of 1 to {MOST_BYTES} bytes")
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as why:
        log.warn("the launcher file {file} is not served: {why}", file=path.name, why=why)
        return None
    return LauncherFile(path, state.st_size, state.st_mtime_ns, sha256, _offer(path, sha256))


def _offer(path: Path, sha256: str) -> Mapping[str, str]:
    """Return a launcher file's version, signature and certificate; empty if unsigned."""
    try:
        with path.with_name(path.name + SUFFIX).open("rb") as file:
            data = json.parse(file.read(LONGEST))
    except FileNotFoundError:
        return {}
    except (OSError, json.BadJson) as why:
        log.warn("the signature of {file} cannot be read: {why}", file=path.name, why=why)
        return {}
    fields = data if isinstance(data, dict) else {}
    offer = {name: text for name in OFFER if isinstance(text := fields.get(name), str)}
    if fields.get("sha256") != sha256 or len(offer) != len(OFFER):
        log.warn(
            "the signature of {file} is incomplete or belongs to another file; make a new "
            "signature with svcctl content launcher",
            file=path.name,
        )
        return {}
    return offer
