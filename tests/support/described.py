"""Whether what is sent and answered is what the OpenAPI document says of the row.

Every ``Game`` watches its own front door so: what any feature test does is compared with the
document, and no list of routes is needed for that. A test that sends on purpose what the
document leaves out, because older clients do, says ``game.described.odd = True``; one whose
requests shall be the document's examples says ``game.described.shown = True``.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import orjson
from attrs import define, field, frozen
from openapi_schema_validator import OAS31Validator

from svcserver.web.front import FinishedRequest
from svcserver.web.openapi import Credentials, operation, schema
from svcserver.web.refusals import wording_of
from svcserver.web.request import HttpRequest
from svcserver.web.response import encode_body
from svcserver.web.routes import Answer, Row
from tests.support import examples
from tests.support.closed import closed

JSON = "application/json"
ENOUGH = 10  # answers of a row and kind in one process; the bodies after these say little new
PAGES = (400, 413)  # of any row, where the body is no JSON or too large

_compared: Counter[str] = Counter()
_asked: dict[int, set[str]] = {}  # names of arguments that were read, by the id of a request
_arguments = HttpRequest.arguments


def _arguments_noted(request: HttpRequest, name: str) -> list[str]:
    _asked.setdefault(id(request), set()).add(name)
    return _arguments(request, name)


setattr(HttpRequest, "arguments", _arguments_noted)  # noqa: B010 - mypy sees a method


@define
class Described:
    """An observer that notes what differs; the test fails at its end."""

    odd: bool = False
    shown: bool = False  # as examples in the document, whatever other tests send
    faults: list[str] = field(factory=list, init=False)
    _rules: dict[str, Rules] = field(factory=dict, init=False)

    def __call__(self, done: FinishedRequest) -> None:
        row, answer = done.row, done.answer
        asked = _asked.pop(id(done.request), set())
        if row is None or answer is None:
            return
        own = {name for name, _ in getattr(row, "owners", ())}  # which the gate may ask for first
        for name in sorted(asked - set(row.query) - own):
            self.faults.append(f"{row.name} reads ?{name}= and does not say so")
        if 400 <= done.status < 500:
            self._compare_refusal(row, answer)
        if not 200 <= done.status < 300:
            return
        if examples.RECORDED is not None and not self.odd:
            examples.RECORDED.note(row, done.request.body, answer, self.shown)
        _compared[row.name] += 1
        if _compared[row.name] > ENOUGH:
            return
        if row.name not in self._rules:
            self._rules[row.name] = rules_of(row)
        rules = self._rules[row.name]
        if rules.sent is not None and not self.odd:
            self._compare(rules.sent, done.request.body, f"what is sent to {row.name}")
        self._compare_success(rules, row, answer)

    def _compare_success(self, rules: Rules, row: Row, answer: Answer) -> None:
        if answer.status == 204:
            self.faults += [] if rules.may_be_empty else [f"what {row.name} answers: 204"]
            return
        named = answer.headers.get("Content-Type", answer.content_type)
        kind = "" if answer.body in (None, b"") else named.partition(";")[0]
        if kind not in rules.kinds:
            self.faults.append(f"what {row.name} answers: {kind or 'nothing'}")
        elif rules.answered is not None and kind == JSON:
            self._compare(rules.answered, encode_body(answer), f"what {row.name} answers")

    def _compare_refusal(self, row: Row, answer: Answer) -> None:
        status, wording = answer.status, wording_of(row.refuse)
        what = f"how {row.name} refuses with {status}"
        _compared[what] += 1
        if _compared[what] > ENOUGH:
            return
        shape, body = row.refusals.get(status, wording.shape), encode_body(answer)
        if not body:
            fits = shape is None or status in wording.bare_too
        elif not answer.content_type.startswith(JSON):
            fits = status in PAGES  # of HTML
        else:
            fits = shape is not None
            if fits:
                self._compare(rules_of_shape(shape), body, what)
        self.faults += [] if fits else [f"{what}: {body.decode() or 'nothing'}"]

    def _compare(self, rules: Any, body: bytes, what: str) -> None:
        try:
            value = orjson.loads(body)
        except ValueError:
            return  # a form, or nothing at all
        self.faults += [f"{what}: {one.message}" for one in rules.iter_errors(value)]


@frozen
class Rules:
    """What a row may be sent and may answer; None where any body will do."""

    sent: Any
    answered: Any
    kinds: tuple[str, ...]  # content types of a success; "" for one without a body
    may_be_empty: bool  # 204


def rules_of(row: Row) -> Rules:
    """The rules of a row, as its operation in the document says them."""
    schemas: dict[str, Any] = {}
    said = operation(row, schemas, Credentials())

    def validator(content: Any, named: dict[str, Any]) -> Any:
        found = content.get(JSON, {}).get("schema")
        return _validator(found, named) if found else None

    sent = said.get("requestBody", {}).get("content", {})
    success = said["responses"].get("2XX")
    answered = (success or {}).get("content", {})
    kinds = () if success is None else tuple(answered) or ("",)
    both = validator(sent, schemas), validator(answered, closed(schemas))
    return Rules(*both, kinds, "204" in said["responses"])


@lru_cache
def rules_of_shape(shape: Any) -> Any:
    """The rules of a shape."""
    schemas: dict[str, Any] = {}
    said = schema(shape, schemas)
    return _validator(said, closed(schemas))


def _validator(said: dict[str, Any], schemas: dict[str, Any]) -> Any:
    return OAS31Validator({**said, "components": {"schemas": schemas}})
