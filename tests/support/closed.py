"""Body schemas without additional properties, so that tests find undocumented members.

The published document stays open, because clients must tolerate members that a later version
adds; only the tests compare strictly. ``svcserver.kernel.shapes.further_members`` lists the shapes
that stay open in tests as well, with the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from openapi_schema_validator import OAS31Validator

from svcserver.web.openapi import Credentials, operation
from svcserver.web.routes import WebRow

JSON = "application/json"


def closed(schema: Any, *, wholly: bool = False) -> Any:
    """Return a copy of one schema, or of a map of schemas, that forbids additional properties.

    Unless ``wholly`` is true, an object stays open if its schema gives a reason why it accepts
    additional properties.
    """
    if isinstance(schema, list):
        return [closed(member, wholly=wholly) for member in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: closed(member, wholly=wholly) for name, member in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        if wholly:
            result["additionalProperties"] = False
        result.setdefault("additionalProperties", False)
    return result


@frozen
class PlainRules:
    """The schemas that the example of a route must match, without additional properties."""

    schemas: Mapping[str, Any]  # by ``sent`` and ``answered``, if the route has that body
    named: Mapping[str, Any]

    @classmethod
    def of(cls, row: WebRow) -> PlainRules:
        """Return the schemas of the route's operation."""
        named: dict[str, Any] = {}
        described = operation(row, named, Credentials())
        bodies = {
            "sent": described.get("requestBody", {}),
            "answered": described["responses"].get("200", {}),
        }
        schemas = {
            which: item["content"][JSON]["schema"]
            for which, item in bodies.items()
            if JSON in item.get("content", {})
        }
        return cls(schemas, closed(named, wholly=True))

    def faults(self, bodies: Mapping[str, Any]) -> list[str]:
        """Check the bodies ``sent`` and ``answered`` of an example, and return the faults."""
        result = [f"{which} is not described" for which in bodies if which not in self.schemas]
        for which in bodies.keys() & self.schemas.keys():
            parts = {**self.schemas[which], "components": {"schemas": self.named}}
            faults = OAS31Validator(parts).iter_errors(bodies[which])
            result += [f"{which}: {fault.message}" for fault in faults]
        return result
