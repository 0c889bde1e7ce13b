"""Whether what is sent and answered is what the OpenAPI document says of the row.

Every ``Game`` watches its own front door so: what any feature test does is compared with the
document, and no list of routes is needed for that. A test that sends on purpose what the
document leaves out, because older clients do, says ``game.described.odd = True``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
from attrs import define, field
from openapi_schema_validator import OAS31Validator

from svcserver.web.front import FinishedRequest
from svcserver.web.openapi import Credentials, operation
from svcserver.web.response import encode_body
from svcserver.web.routes import Row
from tests.support import examples

JSON = "application/json"
ENOUGH = 10  # successes of a row in one process; the bodies after these say little new

_compared: Counter[str] = Counter()


@define
class Described:
    """An observer that notes what differs; the test fails at its end."""

    odd: bool = False
    faults: list[str] = field(factory=list, init=False)
    _rules: dict[str, tuple[Any, Any]] = field(factory=dict, init=False)

    def __call__(self, done: FinishedRequest) -> None:
        row, answer = done.row, done.answer
        if row is None or answer is None or not 200 <= done.status < 300:
            return
        if examples.RECORDED is not None and not self.odd:
            examples.RECORDED.note(row.name, done.request.body, answer)
        _compared[row.name] += 1
        if _compared[row.name] > ENOUGH:
            return
        if row.name not in self._rules:
            self._rules[row.name] = rules_of(row)
        sent, answered = self._rules[row.name]
        if sent is not None and not self.odd:
            self._compare(sent, done.request.body, f"what is sent to {row.name}")
        if answered is not None and answer.content_type.startswith(JSON):
            self._compare(answered, encode_body(answer), f"what {row.name} answers")

    def _compare(self, rules: Any, body: bytes, what: str) -> None:
        try:
            value = orjson.loads(body)
        except ValueError:
            return  # a form, or nothing at all
        self.faults += [f"{what}: {one.message}" for one in rules.iter_errors(value)]


def rules_of(row: Row) -> tuple[Any, Any]:
    """For the body that is sent and for the one that is answered; None where any will do."""
    schemas: dict[str, Any] = {}
    said = operation(row, row.name, schemas, Credentials())
    whole = {"components": {"schemas": schemas}}

    def validator(content: Any) -> Any:
        found = content.get(JSON, {}).get("schema")
        return OAS31Validator({**found, **whole}) if found else None

    sent = said.get("requestBody", {}).get("content", {})
    return validator(sent), validator(said["responses"]["2XX"].get("content", {}))
