"""The schemas of replies with nothing left open, so that a member that nobody described is a fault.

The document that owners read stays open, since a client must take no harm from a member that a
later version adds; the tests alone compare so. Which shapes stay open there too, and why:
``svcserver.kernel.shapes.further_members``.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def closed(said: Any) -> Any:
    """A copy of a schema, or of several by name, in which no object takes further members."""
    if isinstance(said, list):
        return [closed(one) for one in said]
    if not isinstance(said, dict):
        return said
    found = {name: closed(one) for name, one in said.items()}
    if said.get("type") == "object" and isinstance(said.get("properties"), dict):
        found.setdefault("additionalProperties", False)
    return found
