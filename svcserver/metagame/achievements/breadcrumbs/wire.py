"""Request and reply shapes of breadcrumbs. Spec: 1 §4 POST /breadcrumbs."""

from __future__ import annotations

from typing import Any, TypedDict

from attrs import frozen

from svcserver.kernel.json import Fragment
from svcserver.kernel.shapes import Count, camel_case, spelled
from svcserver.metagame.replies import enveloped
from svcserver.web.routes import Answer


@spelled(camel_case)
@frozen
class BreadcrumbSave:
    """The whole list, stored as sent; ``updateVersion`` must rise."""

    breadcrumbs: list[Any]
    update_version: Count


class BreadcrumbList(TypedDict):
    """The whole list, as sent."""

    breadcrumbs: list[Any]
    updateVersion: int


def show(version: int, listed: bytes) -> Answer:
    """The reply with a list, whose JSON text is ``listed``."""
    return enveloped({"breadcrumbs": Fragment(listed), "updateVersion": version})
