"""Compare every request and reply of a feature test with the OpenAPI document.

Each ``Game`` observes all requests that it receives, so every feature test takes part and no list
of routes is needed. A test sets ``game.described.odd = True`` if it deliberately sends what the
document omits, or makes the server fail. A test sets ``game.described.shown = True`` if its
requests should become the document's examples.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from attrs import define, field, frozen
from openapi_schema_validator import OAS31Validator, oas31_format_checker

from svcserver.kernel.headers import ATTEMPT, GATEWAY, MACHINE, REQUEST_ID
from svcserver.metagame.access.credentials import CREDENTIALS
from svcserver.web.front import FinishedRequest
from svcserver.web.openapi import has_page, operation, refusal_responses, schema, shared_responses
from svcserver.web.request import HttpRequest
from svcserver.web.response import encode_body
from svcserver.web.routes import Answer, WebRow
from tests.support import examples
from tests.support.closed import closed

JSON = "application/json"
HTML = "text/html"
ENOUGH = 10  # bodies with one outline that are compared per route and kind in a process
OUTLINES = 50  # per route and kind: if member names are ids, each body has another outline

_rules: dict[int, tuple[WebRow, Rules]] = {}  # by the id of the row object, which all games share
_compared: dict[str, Counter[str]] = defaultdict(Counter)
_fields_read: dict[int, set[str]] = {}  # what handlers read of each request, by the request's id
_arguments, _header = HttpRequest.arguments, HttpRequest.header
OF_ALL_ROWS = {  # read by the router and the gate, or elsewhere in OpenAPI
    "accept",
    "authorization",
    "content-type",
    "cookie",
    *map(bytes.decode, (ATTEMPT, GATEWAY, MACHINE, REQUEST_ID)),
    *(str(scheme.get("name")) for scheme in CREDENTIALS.schemes.values()),
}


def _note(request: HttpRequest, name: str) -> None:
    names = _fields_read.get(id(request))
    if names is None:
        names = _fields_read[id(request)] = set()
        # another request may get the same id
        weakref.finalize(request, _fields_read.pop, id(request), None)
    names.add(name)


def _arguments_noted(request: HttpRequest, name: str) -> list[str]:
    _note(request, f"?{name}=")
    return _arguments(request, name)


def _header_noted(request: HttpRequest, name: bytes) -> str | None:
    if (text := name.decode()) not in OF_ALL_ROWS:
        _note(request, f"{text}:")
    return _header(request, name)


setattr(HttpRequest, "arguments", _arguments_noted)  # noqa: B010 - mypy sees a method
setattr(HttpRequest, "header", _header_noted)  # noqa: B010


@define
class Described:
    """An observer that records differences from the document and fails the test at the end."""

    odd: bool = False
    shown: bool = False  # as examples in the document, whatever other tests send
    faults: list[str] = field(factory=list, init=False)

    def __call__(self, done: FinishedRequest) -> None:
        row, answer = done.row, done.answer
        request = _fields_read.get(id(done.request), set())
        if row is None or answer is None:
            return
        described = {f"?{name}=" for name in row.query} | {f"{name}:" for name in row.headers}
        described |= {f"?{name}=" for name, _ in getattr(row, "owners", ())}  # read by the gate
        for name in sorted(request - described):
            self.faults.append(f"{row.name} reads {name} and does not say so")
        if 400 <= done.status < 600:
            self._compare_refusal(row, answer)
        if not 200 <= done.status < 300:
            return
        if examples.RECORDED is not None and not self.odd:
            examples.RECORDED.note(row, done.request.body, answer, self.shown)
        sent = self._rules_of(row).sent
        if sent is not None and not self.odd:
            try:
                value = orjson.loads(done.request.body)
            except ValueError:
                value = None  # a form, or nothing at all
            if value is not None:
                self._compare(sent, value, f"what is sent to {row.name}")
        self._compare_success(self._rules_of(row), row, answer)

    def _compare_success(self, rules: Rules, row: WebRow, answer: Answer) -> None:
        if answer.status == 204:
            self.faults += [] if rules.may_be_empty else [f"what {row.name} answers: 204"]
            return
        named = answer.headers.get("Content-Type", answer.content_type)
        kind = "" if answer.body in (None, b"") else named.partition(";")[0]
        if kind not in rules.kinds:
            self.faults.append(f"what {row.name} answers: {kind or 'nothing'}")
        elif rules.answered is not None and kind == JSON:
            self._compare_answer(rules.answered, answer, f"what {row.name} answers")

    def _compare_refusal(self, row: WebRow, answer: Answer) -> None:
        body = encode_body(answer)
        kind = answer.content_type.partition(";")[0] if body else ""
        what = f"how {row.name} refuses with {answer.status}"
        kinds = self._rules_of(row).refused(answer.status)
        if answer.status in (500, 502) and self.odd:
            return  # the test has made the server fail
        if kind not in kinds:
            self.faults.append(f"{what}: {body.decode() or 'nothing'}")
        elif kind == JSON:
            self._compare_answer(kinds[kind], answer, what)

    @staticmethod
    def _rules_of(row: WebRow) -> Rules:
        if id(row) not in _rules:
            _rules[id(row)] = row, rules_of(row)
        return _rules[id(row)][1]

    def _compare_answer(self, rules: Any, answer: Answer, what: str) -> None:
        try:
            value = orjson.loads(encode_body(answer))
        except ValueError:
            self.faults.append(f"{what}: no JSON, and is said to be")
        else:
            self._compare(rules, value, what)

    def _compare(self, rules: Any, value: Any, what: str) -> None:
        counts, outline = _compared[what], repr(outline_of(value))
        if counts[outline] >= ENOUGH or (outline not in counts and len(counts) >= OUTLINES):
            return
        counts[outline] += 1
        self.faults += [f"{what}: {error.message}" for error in rules.iter_errors(value)]


def outline_of(value: Any, depth: int = 3) -> Any:
    """Return the names of a body's members and the types of their values."""
    if isinstance(value, dict) and depth:
        return sorted((key, outline_of(item, depth - 1)) for key, item in value.items())
    if isinstance(value, list) and depth:
        return sorted({repr(outline_of(item, depth - 1)) for item in value[:ENOUGH]})
    return type(value).__name__


@frozen
class Rules:
    """The schemas of a route's request and reply; None allows any body."""

    sent: Any
    answered: Any
    kinds: tuple[str, ...]  # content types of a success; "" for one without a body
    may_be_empty: bool  # 204
    refusals: Mapping[str, Mapping[str, Any]]  # by status the rules of each content type

    def refused(self, status: int) -> Mapping[str, Any]:
        """Return a dict from each content type that an error's body may have to its schema.

        For a 5xx status that the document does not describe, the dict is empty.
        """
        usual = self.refusals["4XX"] if status < 500 else {}
        return self.refusals.get(str(status), usual)


def rules_of(row: WebRow) -> Rules:
    """Return a route's rules, as the route's operation in the document defines them."""
    schemas: dict[str, Any] = {}
    described = operation(row, schemas, CREDENTIALS)
    named = shared_responses() | refusal_responses(row, schemas)

    def validator(content: Any, shapes: dict[str, Any]) -> Any:
        results = content.get(JSON, {}).get("schema")
        return _validator(results, shapes) if results else None

    def refusal(response: dict[str, Any]) -> dict[str, Any]:
        name = response.get("$ref", "").rpartition("/")[2]
        content = named[name].get("content", {}) if name else response.get("content", {})
        rules = {kind: validator(content, closed(schemas)) for kind in content}
        if not content:
            rules[""] = None
            if name.endswith("OrBare"):
                usual = named[name.removesuffix("OrBare")]["content"]
                rules[JSON] = validator(usual, closed(schemas))
        return rules

    responses = described["responses"]
    refused = {status: refusal(item) for status, item in responses.items() if status > "4"}
    if "400" not in refused and has_page(row):  # the document describes this once for all routes
        refused["400"] = refused["4XX"] | {HTML: None}
    sent = described.get("requestBody", {}).get("content", {})
    answered = responses.get("200", {}).get("content", {})
    kinds = (tuple(answered) or ("",)) if "200" in responses else ()
    return Rules(
        validator(sent, schemas),
        validator(answered, closed(schemas)),
        kinds,
        "204" in responses,
        refused,
    )


@lru_cache
def rules_of_shape(shape: Any) -> Any:
    """Return the rules that a shape defines."""
    schemas: dict[str, Any] = {}
    shape_schema = schema(shape, schemas)
    return _validator(shape_schema, closed(schemas))


def _validator(document: dict[str, Any], schemas: dict[str, Any]) -> Any:
    whole = {**document, "components": {"schemas": schemas}}
    return OAS31Validator(whole, format_checker=oas31_format_checker)
