"""When a list of breadcrumbs may be replaced. Spec: 1 §4 POST /breadcrumbs."""

from __future__ import annotations

from typing import Any

from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Conflict, Malformed

MAX_VERSION = 2**53


def read_save(body: Json) -> tuple[list[Any], int]:
    """The list and its version; raises Malformed."""
    sent = body if isinstance(body, dict) else {}
    listed, version = sent.get("breadcrumbs"), sent.get("updateVersion")
    if isinstance(version, float) and version.is_integer():
        version = int(version)
    if not isinstance(listed, list):
        raise Malformed("breadcrumbs must be a list")
    if type(version) is not int or not 0 <= version < MAX_VERSION:
        raise Malformed("updateVersion must be a number")
    return listed, version


def check_size(size: int, most: int) -> None:
    """Raises Malformed for a list of more bytes than one may have."""
    if size > most:
        raise Malformed("these are too many breadcrumbs")


def check(stored: int | None, version: int) -> None:
    """Raises Conflict unless the version rises; the first save may use any."""
    if stored is not None and stored >= version:
        raise Conflict("these breadcrumbs have changed since")
