"""The schemas of bodies with nothing left open, so that a member that nobody described is a fault.

The document that owners read stays open, since a client must take no harm from a member that a
later version adds; the tests alone compare so. Which shapes stay open there too, and why:
``svcserver.kernel.shapes.further_members``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from openapi_schema_validator import OAS31Validator

from svcserver.web.openapi import Credentials, operation
from svcserver.web.routes import Row

JSON = "application/json"


def closed(said: Any, *, wholly: bool = False) -> Any:
    """A copy of a schema, or of several by name, in which no object takes further members.

    Without ``wholly`` those that say why they take some stay as they are.
    """
    if isinstance(said, list):
        return [closed(one, wholly=wholly) for one in said]
    if not isinstance(said, dict):
        return said
    found = {name: closed(one, wholly=wholly) for name, one in said.items()}
    if said.get("type") == "object" and isinstance(said.get("properties"), dict):
        if wholly:
            found["additionalProperties"] = False
        found.setdefault("additionalProperties", False)
    return found


@frozen
class PlainRules:
    """What an example of a row may show: only what its shapes name."""

    schemas: Mapping[str, Any]  # by ``sent`` and ``answered``, where there is such a body
    named: Mapping[str, Any]

    @classmethod
    def of(cls, row: Row) -> PlainRules:
        """As the row's operation in the document says."""
        named: dict[str, Any] = {}
        said = operation(row, named, Credentials())
        bodies = {
            "sent": said.get("requestBody", {}),
            "answered": said["responses"].get("200", {}),
        }
        schemas = {
            which: one["content"][JSON]["schema"]
            for which, one in bodies.items()
            if JSON in one.get("content", {})
        }
        return cls(schemas, closed(named, wholly=True))

    def faults(self, bodies: Mapping[str, Any]) -> list[str]:
        """What is wrong with these bodies, ``sent`` and ``answered``, as an example."""
        found = [f"{which} is not described" for which in bodies if which not in self.schemas]
        for which in bodies.keys() & self.schemas.keys():
            said = {**self.schemas[which], "components": {"schemas": self.named}}
            faults = OAS31Validator(said).iter_errors(bodies[which])
            found += [f"{which}: {one.message}" for one in faults]
        return found
