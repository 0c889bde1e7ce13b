"""The manifest, which lists the game's files with their sizes and SHA-256 hashes.

A manifest that breaks a rule is rejected when the server starts, because launchers verify every
downloaded file against the manifest. Spec: 2 §2 Content manifest.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from svcserver.content.paths import is_clean
from svcserver.kernel import json
from svcserver.kernel.game_paths import LONGEST_LIST

MAX_BYTES = LONGEST_LIST - 8192  # of the manifest file; the served list adds the program's path
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class BadManifest(ValueError):
    """The error for a manifest that breaks a rule; ``str()`` names the file entry and the fault."""


@frozen
class ManifestEntry:
    """A game file as the manifest lists it."""

    path: str
    size: int  # bytes
    sha256: str  # 64 lower-case hex digits

    @property
    def etag(self) -> str:
        """Return the file's ETag, including the quotes."""
        return f'"{self.sha256}"'


@frozen
class Manifest:
    """All files of one build, sorted by the bytes of their paths."""

    build: str
    files: Mapping[str, ManifestEntry] = field(repr=False)

    @property
    def total_bytes(self) -> int:
        """Return the total size of all files, in bytes."""
        return sum(entry.size for entry in self.files.values())

    def dump(self, program: str = "") -> bytes:
        """Return the JSON that is served and written to the manifest file.

        ``program`` is the path of the file that starts the game; only the served JSON contains it.
        """
        files = [
            {"path": entry.path, "size": entry.size, "sha256": entry.sha256}
            for entry in self.files.values()
        ]
        document = {"build": self.build, "totalBytes": self.total_bytes, "files": files}
        return json.dump({**document, "program": program} if program else document)


def body_etag(body: bytes) -> str:
    """Return the ETag of a body: its quoted SHA-256."""
    return f'"{hashlib.sha256(body).hexdigest()}"'


def make(build: str, entries: Iterable[ManifestEntry]) -> Manifest:
    """Return a manifest of these files; raises BadManifest if the files break a rule."""
    ordered = sorted(entries, key=lambda entry: entry.path.encode("utf-8", "surrogatepass"))
    raw = [{"path": e.path, "size": e.size, "sha256": e.sha256} for e in ordered]
    total = sum(entry.size for entry in ordered)
    return check({"build": build, "totalBytes": total, "files": raw})


def parse(text: bytes) -> Manifest:
    """Return the manifest in a file's text; raises BadManifest."""
    if len(text) > MAX_BYTES:
        raise BadManifest(f"is larger than {MAX_BYTES} bytes")
    try:
        value = json.parse(text.removeprefix(b"\xef\xbb\xbf"))
    except json.BadJson:
        raise BadManifest("is not JSON") from None
    return check(value)


def check(value: Any) -> Manifest:
    """Validate parsed JSON against every manifest rule; raises BadManifest."""
    if not isinstance(value, dict):
        raise BadManifest("is not an object")
    raw = value.get("files")
    if not isinstance(raw, list) or not raw:
        raise BadManifest("has no list of files")
    files: dict[str, ManifestEntry] = {}
    folded: set[str] = set()
    before = b""
    for number, item in enumerate(raw, 1):
        entry = _entry(item, number)
        if entry.path.lower() in folded:
            raise BadManifest(f"repeats an earlier path in entry {number} (letter case ignored)")
        here = entry.path.encode()
        if here < before:
            raise BadManifest(f"is not sorted by path at entry {number}")
        folded.add(entry.path.lower())
        files[entry.path], before = entry, here
    build = value.get("build")
    manifest = Manifest(build if isinstance(build, str) and build else "unknown", files)
    total = value.get("totalBytes")
    if type(total) is not int or total != manifest.total_bytes:
        raise BadManifest(
            f"has a totalBytes that is not the sum of all sizes, {manifest.total_bytes}"
        )
    return manifest


def _entry(item: Any, number: int) -> ManifestEntry:
    if not isinstance(item, dict):
        raise BadManifest(f"has an entry {number} that is not an object")
    path, size, sha256 = item.get("path"), item.get("size"), item.get("sha256")
    if not isinstance(path, str) or not is_clean(path):
        raise BadManifest(f"has an unsafe path in entry {number}")
    if type(size) is not int or size < 0:
        raise BadManifest(f"has a size in entry {number} that is not a whole number of bytes")
    if not isinstance(sha256, str) or not _SHA256.match(sha256):
        raise BadManifest(f"has a sha256 in entry {number} that is not 64 lower-case hex digits")
    return ManifestEntry(path, size, sha256)
