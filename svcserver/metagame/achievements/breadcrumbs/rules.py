"""Rules for replacing a list of breadcrumbs. Spec: 1 §4 POST /breadcrumbs."""

from __future__ import annotations

from svcserver.kernel.refusals import Conflict, Malformed


def check_size(size: int, most: int) -> None:
    """Raise Malformed for a list of more than ``most`` bytes."""
    if size > most:
        raise Malformed("these are too many breadcrumbs")


def check(stored: int | None, version: int) -> None:
    """Raise Conflict unless the version rises; the first save may use any."""
    if stored is not None and stored >= version:
        raise Conflict("these breadcrumbs have changed since")
