"""The launcher's pictures and accent colour, re-read while the server runs.

Spec: 2 §4 Content server, §8 Branding image.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field, frozen
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.foreign_text import plain

log = Logger()

RE_READ_S = 10.0
MAX_IMAGE = 25 * 1024 * 1024  # bytes
MAX_NAME = 100
MAX_CREDIT = 200
MAX_IMAGES = 200  # listed
MAX_JSON = 1024 * 1024  # bytes of branding.json
URL = "/content/v1/branding/"

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(jpg|jpeg|png|webp)\Z", re.IGNORECASE)
_ACCENT = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})\Z")
_TYPES = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp"}


@frozen
class Image:
    """An open image; the caller closes ``file``."""

    file: BinaryIO
    size: int
    content_type: str
    etag: str


def image_type(name: str) -> str | None:
    """The media type of a safe image name, else None."""
    found = _NAME.match(name)
    if found is None or len(name) > MAX_NAME or ".." in name:
        return None
    return _TYPES[found[1].lower()]


def is_image(content_type: str, head: bytes) -> bool:
    """Whether ``head``, a file's first bytes, has the signature of the type."""
    if content_type == "image/jpeg":
        return head.startswith(b"\xff\xd8\xff")
    if content_type == "image/png":
        return head.startswith(b"\x89PNG\r\n\x1a\n")
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def clean_accent(value: Any) -> str | None:
    """``#rgb`` or ``#rrggbb`` in lower case, else None."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if _ACCENT.match(text) else None


def clean_credit(value: Any) -> str | None:
    """One line of at most 200 characters, else None."""
    if not isinstance(value, str):
        return None
    return " ".join(plain(value).split())[:MAX_CREDIT].strip() or None


@define
class Branding:
    """The branding in ``folder`` (CONTENT_BRANDING_DIR; None: no branding)."""

    folder: Path | None
    _body: bytes = field(default=b"", init=False)
    _read_at: float | None = field(default=None, init=False)
    _left_out: list[str] = field(factory=list, init=False)

    def body(self, now: float) -> bytes:
        """The JSON answer; the folder is read again at most every ten seconds (of ``now``)."""
        if self._read_at is None or not 0 <= now - self._read_at < RE_READ_S:
            self._read_at = now
            self._body = json.dump(self._read())
        return self._body

    def open(self, name: str) -> Image | None:
        """The image of that name; None when there is no such valid image."""
        content_type = image_type(name)
        if self.folder is None or content_type is None:
            return None
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            file: Any = os.fdopen(os.open(self.folder / name, flags), "rb", buffering=0)
        except OSError:
            return None
        try:
            seen = os.fstat(file.fileno())
            good = stat.S_ISREG(seen.st_mode) and 1 <= seen.st_size <= MAX_IMAGE
            if good and is_image(content_type, file.read(12)):
                etag = f'"{seen.st_size:x}-{seen.st_mtime_ns:x}"'
                found = Image(file, seen.st_size, content_type, etag)
                file = None
                return found
        except OSError as why:
            log.warn("{name} cannot be read: {why}", name=name, why=why.strerror)
        finally:
            if file is not None:
                file.close()
        return None

    def _read(self) -> dict[str, Any]:
        if self.folder is None:
            return {"backgrounds": [], "accent": None}
        wish = self._wish(self.folder / "branding.json")
        if wish is None:
            names = ((name, None) for name in self._names(self.folder))
            return {"backgrounds": self._backgrounds(names), "accent": None}
        listed = wish.get("backgrounds")
        if not isinstance(listed, list):
            named: Iterable[tuple[Any, Any]] = ((name, None) for name in self._names(self.folder))
        else:
            named = (_named(one) for one in listed)
        accent = clean_accent(wish.get("accent"))
        return {"backgrounds": self._backgrounds(named), "accent": accent}

    def _backgrounds(self, named: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        left_out: list[str] = []
        for name, credit in named:
            if len(found) >= MAX_IMAGES:
                log.warn("only the first {count} images are listed", count=MAX_IMAGES)
                break
            if not isinstance(name, str) or name in found or not self._valid(name):
                left_out.append(repr(name)[:MAX_NAME])
                continue
            found[name] = {"url": URL + name, "credit": clean_credit(credit)}
        self._tell(left_out)
        return list(found.values())

    def _tell(self, left_out: list[str]) -> None:
        """Log what is left out, when that changes."""
        if left_out and left_out != self._left_out:
            log.warn(
                "branding: left out {names}: twice there, or no readable jpg, png or webp "
                "of at most 25 MB under a plain name",
                names=", ".join(left_out[:MAX_IMAGES]),
            )
        self._left_out = left_out

    def _valid(self, name: str) -> bool:
        image = self.open(name)
        if image is None:
            return False
        image.file.close()
        return True

    @staticmethod
    def _names(folder: Path) -> list[str]:
        try:
            return sorted(name for name in os.listdir(folder) if image_type(name) is not None)
        except OSError as why:
            log.warn("the branding folder cannot be read: {why}", why=why.strerror)
            return []

    @staticmethod
    def _wish(path: Path) -> dict[str, Any] | None:
        """The content of branding.json; None when it is missing or broken."""
        try:
            if path.stat().st_size > MAX_JSON:
                raise json.BadJson("it is too large")
            value = json.parse(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
            if not isinstance(value, dict):
                raise json.BadJson("it is not an object")
        except FileNotFoundError:
            return None
        except (OSError, json.BadJson) as why:
            log.warn("branding.json is broken and ignored: {why}", why=str(why))
            return None
        return value


def _named(one: Any) -> tuple[Any, Any]:
    if isinstance(one, dict):
        return one.get("file"), one.get("credit")
    return one, None
