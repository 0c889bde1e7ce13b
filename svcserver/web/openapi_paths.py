"""The paths of rows as OpenAPI has them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from svcserver.kernel.shapes import Schema
from svcserver.web.routes import Row


def template(path: str) -> str:
    """``/note/{id}`` of a row's ``/note/<id>``."""
    return re.sub(r"<(\w+)>", r"{\1}", path)


def templates(rows: Iterable[Row]) -> dict[str, str]:
    """By the name of a row its path in the document.

    To OpenAPI paths that differ in the names of parameters alone are one path, with one name for
    what stands at a place of it: ``/note/{note_id_or_user_id}``.
    """
    rows = list(rows)
    alike: dict[str, list[list[str]]] = {}
    for row in rows:
        alike.setdefault(_nameless(row.path), []).append(row.parameters)
    joined = {
        path: path.format(
            *(f"{{{'_or_'.join(sorted(set(names)))}}}" for names in zip(*named, strict=True))
        )
        for path, named in alike.items()
    }
    return {row.name: joined[_nameless(row.path)] for row in rows}


def rename(parameters: list[Schema], path: str) -> None:
    """Name those that stand in the path, which come first, as it does, and say which each is."""
    for one, name in zip(parameters, re.findall(r"{(\w+)}", path), strict=False):
        if one["name"] != name:
            one |= {"name": name, "description": f"Here the {one['name'].replace('_', ' ')}."}


def _nameless(path: str) -> str:
    """A path without the names of its parameters: ``/note/{}``."""
    return re.sub(r"<\w+>", "{}", path)
