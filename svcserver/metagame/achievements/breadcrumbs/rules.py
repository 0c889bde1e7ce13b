"""When a list of breadcrumbs may be replaced. Spec: 1 §4 POST /breadcrumbs."""

from __future__ import annotations

from svcserver.kernel.refusals import Conflict, Malformed


def check_size(size: int, most: int) -> None:
    """Raises Malformed for a list of more bytes than one may have."""
    if size > most:
        raise Malformed("these are too many breadcrumbs")


def check(stored: int | None, version: int) -> None:
    """Raises Conflict unless the version rises; the first save may use any."""
    if stored is not None and stored >= version:
        raise Conflict("these breadcrumbs have changed since")
