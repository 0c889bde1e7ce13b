"""The game's files on disk, as they were when the server started.

A file that is missing, has the wrong size or changes later is not served until a restart.
Spec: 2 §7 file_unavailable.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from attrs import define, field
from twisted.logger import Logger

from svcserver.content.manifest import Manifest, ManifestEntry
from svcserver.kernel.refusals import Unavailable

log = Logger()
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FLAGS |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@define
class ServedGameFiles:
    """The manifest's files below ``folder``, opened on request."""

    folder: Path
    manifest: Manifest
    _mtimes: dict[str, int] = field(factory=dict, init=False)  # path -> mtime in ns (good files)
    missing: list[str] = field(factory=list, init=False)
    mismatched: list[str] = field(factory=list, init=False)

    def check(self) -> None:
        """Log the files that are missing or have the wrong size; these files are not served."""
        for entry in self.manifest.files.values():
            try:
                status = os.lstat(self.folder / entry.path)
            except OSError:
                self.missing.append(entry.path)
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size == entry.size:
                self._mtimes[entry.path] = status.st_mtime_ns
            else:
                self.mismatched.append(entry.path)
        log.info(
            "build {build}: {good} of {all} files match the manifest in size",
            build=self.manifest.build,
            good=len(self._mtimes),
            all=len(self.manifest.files),
        )
        for word, paths in (
            ("missing", self.missing),
            ("of another size than in the manifest", self.mismatched),
        ):
            if paths:
                log.warn(
                    "{count} files are not served, because they are {word}: {paths}",
                    count=len(paths),
                    word=word,
                    paths=", ".join(paths),
                )

    def open(self, entry: ManifestEntry) -> BinaryIO:
        """Return the open file; raises Unavailable if it is missing or has changed since start."""
        known = self._mtimes.get(entry.path)
        if known is None:
            raise Unavailable(code="file_unavailable")
        try:
            file = os.fdopen(os.open(self.folder / entry.path, _FLAGS), "rb", buffering=0)
        except FileNotFoundError:
            self.spoiled(entry.path, "the file was deleted")
            raise Unavailable(code="file_unavailable") from None
        except OSError as why:
            log.error("{path} cannot be opened: {why}", path=entry.path, why=why.strerror)
            if not _passing(why):
                self.spoiled(entry.path, "the file cannot be opened")
            raise Unavailable(code="file_unavailable") from None
        status = os.fstat(file.fileno())
        same = stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == (
            entry.size,
            known,
        )
        if not same:
            file.close()
            self.spoiled(entry.path, "the size or time of the file changed")
            raise Unavailable(code="file_unavailable")
        return file

    def spoiled(self, path: str, why: str) -> None:
        """Stop serving a file until a restart, and log the reason."""
        if self._mtimes.pop(path, None) is not None:
            log.error(
                "{path} is no longer served: {why}; restore the file and restart svc-content",
                path=path,
                why=why,
            )


def _passing(why: OSError) -> bool:
    """Return whether the error is a temporary resource limit of the machine."""
    return why.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
