"""Request and reply shapes of breadcrumbs. Spec: 1 §4 POST /breadcrumbs."""

from __future__ import annotations

from typing import Any, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import envelope
from svcserver.kernel.json import Fragment
from svcserver.kernel.shapes import AsSent, Count, camel_case, spelled


@spelled(camel_case)
@frozen
class BreadcrumbSave:
    """All breadcrumbs of a character, kept as sent; ``updateVersion`` must rise with every save."""

    breadcrumbs: list[AsSent]
    update_version: Count


class BreadcrumbList(TypedDict):
    """All breadcrumbs of a character (marks of what is new in the menus), as they were sent."""

    breadcrumbs: list[AsSent]
    updateVersion: int


def show(version: int, listed: bytes) -> dict[str, Any]:
    """The reply with a list, whose JSON text is ``listed``."""
    return envelope({"breadcrumbs": Fragment(listed), "updateVersion": version})
