"""The launcher's pictures and accent colour, which are re-read while the server runs.

Spec: 2 §4 Content server, §8 Branding image.
"""

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
    """Return the media type for an image's file name; None if the name is not allowed."""
    match = _NAME.match(name)
    if match is None or len(name) > MAX_NAME or ".." in name:
        return None
    return _TYPES[match[1].lower()]


def is_image(content_type: str, head: bytes) -> bool:
    """Return whether the first bytes of a file have the signature of ``content_type``."""
    if content_type == "image/jpeg":
        return head.startswith(b"\xff\xd8\xff")
    if content_type == "image/png":
        return head.startswith(b"\x89PNG\r\n\x1a\n")
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def clean_accent(value: Any) -> str | None:
    """Return ``#rgb`` or ``#rrggbb`` in lower case, or None if the value is not a colour."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if _ACCENT.match(text) else None


def clean_credit(value: Any) -> str | None:
    """Return the line that credits a picture's author, cut to 200 characters, or None."""
    if not isinstance(value, str):
        return None
    return " ".join(plain(value).split())[:MAX_CREDIT].strip() or None


@define
class Branding:
    """The branding in ``folder`` (CONTENT_BRANDING_DIR); if ``folder`` is None, there is none."""

    folder: Path | None
    _body: bytes = field(default=b"", init=False)
    _read_at: float | None = field(default=None, init=False)
    _left_out: list[str] = field(factory=list, init=False)

    def body(self, now: float) -> bytes:
        """Return the JSON answer; the folder is read at most every ten seconds."""
        if self._read_at is None or not 0 <= now - self._read_at < RE_READ_S:
            self._read_at = now
            self._body = json.dump(self._read_document())
        return self._body

    def open(self, name: str) -> Image | None:
        """Return the image with this name, or None if there is no valid image with this name."""
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
            status = os.fstat(file.fileno())
            good = stat.S_ISREG(status.st_mode) and 1 <= status.st_size <= MAX_IMAGE
            if good and is_image(content_type, file.read(12)):
                etag = f'"{status.st_size:x}-{status.st_mtime_ns:x}"'
                image = Image(file, status.st_size, content_type, etag)
                file = None
                return image
        except OSError as why:
            log.warn("the branding image {name} cannot be read: {why}", name=name, why=why.strerror)
        finally:
            if file is not None:
                file.close()
        return None

    def _read_document(self) -> dict[str, Any]:
        if self.folder is None:
            return {"backgrounds": [], "accent": None}
        document = self._document(self.folder / "branding.json")
        if document is None:
            names = ((name, None) for name in self._names(self.folder))
            return {"backgrounds": self._backgrounds(names), "accent": None}
        listed = document.get("backgrounds")
        if not isinstance(listed, list):
            named: Iterable[tuple[Any, Any]] = ((name, None) for name in self._names(self.folder))
        else:
            named = (_named(item) for item in listed)
        accent = clean_accent(document.get("accent"))
        return {"backgrounds": self._backgrounds(named), "accent": accent}

    def _backgrounds(self, named: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
        images: dict[str, dict[str, Any]] = {}
        left_out: list[str] = []
        for name, credit in named:
            if len(images) >= MAX_IMAGES:
                log.warn(
                    "branding: there are more than {count} images. Only the first {count} images "
                    "are used.",
                    count=MAX_IMAGES,
                )
                break
            if not isinstance(name, str) or name in images or not self._valid(name):
                left_out.append(repr(name)[:MAX_NAME])
                continue
            images[name] = {"url": URL + name, "credit": clean_credit(credit)}
        self._warn_left_out(left_out)
        return list(images.values())

    def _warn_left_out(self, left_out: list[str]) -> None:
        """Log the ignored files whenever their list changes."""
        if left_out and left_out != self._left_out:
            log.warn(
                "branding: ignoring {names}, because each image must be listed once and be a "
                "readable .jpg, .jpeg, .png or .webp file of at most 25 MB. Its name has at most "
                "100 characters: letters (a to z), digits, _, - and dots.",
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
    def _document(path: Path) -> dict[str, Any] | None:
        """Return the content of branding.json, or None if the file is missing or invalid."""
        try:
            if path.stat().st_size > MAX_JSON:
                raise json.BadJson("the file is too large")
            value = json.parse(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
            if not isinstance(value, dict):
                raise json.BadJson("the file is not a JSON object")
        except FileNotFoundError:
            return None
        except (OSError, json.BadJson) as why:
            log.warn("branding.json is ignored, because it is invalid: {why}", why=str(why))
            return None
        return value


def _named(item: Any) -> tuple[Any, Any]:
    if isinstance(item, dict):
        return item.get("file"), item.get("credit")
    return item, None
