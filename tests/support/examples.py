"""Recorded requests and replies of the feature tests: the examples of the OpenAPI document.

    SVC_RECORD_EXAMPLES=1 .venv/bin/python -m pytest tests/metagame/social/test_greetings.py

runs tests and adds to EXAMPLES a request and its reply for each route without a valid example. To
record a route again, delete its entry first. A test in tests/web/test_openapi.py compares each
example with the shapes of its route, and names the routes to record or to delete.
tests/metagame/test_examples.py sends plain requests for routes that other tests call only in
unusual ways.
"""

import atexit
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field, frozen

from svcserver.kernel.redaction import redact
from svcserver.metagame.owner.dashboard import document
from svcserver.web.response import encode_body
from svcserver.web.routes import Answer, WebRow
from tests.support.closed import PlainRules

EXAMPLES = Path(document.__file__).parent / "data" / document.EXAMPLES
LONGEST = 1_500  # bytes of an example; of longer lists the first entries are enough, or the first
ENTRIES = 2
SECRETS = ("secret", "Secret")  # members with a second factor's secret, which looks like a word
IN_ADDRESS = re.compile(r"(?<=[?&]secret=)\w+")  # the same secret in the URL for an app
WORTH = 3  # members that count as much as one odd text
EMPTY: tuple[Any, ...] = (None, "", [], {})
SHORT = 2  # texts up to this length tell a reader nothing


@frozen
class Pair:
    """One recorded exchange: the request ``sent`` and the reply ``answered``."""

    bodies: dict[str, Any]
    meant: bool  # a test marked the pair as ``shown``

    @property
    def worth(self) -> tuple[bool, int, int]:
        """Return a score for readability: many members raise it, odd or long values lower it."""
        texts = [text for body in self.bodies.values() for text in _texts(body)]
        shown = {place for name, body in self.bodies.items() for place in _places(body, name)}
        rated = len(shown) - WORTH * sum(map(_is_odd, texts))
        return self.meant, rated, -len(orjson.dumps(self.bodies))


@define
class Examples:
    """The most readable pair for each route whose stored example is missing or not valid."""

    pairs: dict[str, Pair] = field(factory=dict)
    stored: dict[str, Any] = field(factory=lambda: orjson.loads(EXAMPLES.read_bytes()))
    _rules: dict[str, PlainRules] = field(factory=dict, init=False)

    def note(self, row: WebRow, sent: bytes, answer: Answer, meant: bool) -> None:
        """Keep a route's request and reply if this pair is more readable than the stored pair."""
        result = {"sent": _shown(sent) if row.body is not None else None}
        if answer.content_type.startswith("application/json"):
            result["answered"] = _shown(encode_body(answer))
        bodies = {name: body for name, body in result.items() if body is not None}
        pair, before = Pair(bodies, meant), self.pairs.get(row.name)
        if not bodies or (before is not None and pair.worth <= before.worth):
            return
        if row.name not in self._rules:
            self._rules[row.name] = PlainRules.of(row)
        rules, stored = self._rules[row.name], self.stored.get(row.name, {})
        is_valid = stored.keys() >= bodies.keys() and not rules.faults(stored)
        if not is_valid and not rules.faults(bodies):
            self.pairs[row.name] = pair

    def write(self) -> None:
        """Write the examples, sorted, without values that look like secrets."""
        examples = self.stored | {row: pair.bodies for row, pair in self.pairs.items()}
        result = dict(sorted(examples.items()))
        text = orjson.dumps(result, option=orjson.OPT_INDENT_2).decode()
        lines = [redact(IN_ADDRESS.sub("<secret>", line)) for line in text.splitlines()]
        EXAMPLES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _shown(body: bytes) -> Any:
    """Return the body with shortened lists; None if the body is not JSON or is too long."""
    try:
        text = orjson.loads(body)
    except ValueError:
        return None
    for entries in (ENTRIES, 1):
        value = _shortened(text, entries)
        if len(orjson.dumps(value)) <= LONGEST:
            return value
    return None


def _shortened(value: Any, entries: int) -> Any:
    if isinstance(value, list):
        return [_shortened(item, entries) for item in value[:entries]]
    if isinstance(value, dict):
        return {
            key: "<secret>" if key in SECRETS else _shortened(item, entries)
            for key, item in value.items()
        }
    return value


def _places(value: Any, place: str) -> Iterator[str]:
    """Yield the path of each member whose value is not empty.

    All items of a list share one path.
    """
    if isinstance(value, list):
        for entry in value:
            yield from _places(entry, f"{place}[]")
    elif isinstance(value, dict):
        for key, entry in value.items():
            if entry not in EMPTY:
                yield f"{place}.{key}"
                yield from _places(entry, f"{place}.{key}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _texts(entry)


def _is_odd(text: str) -> bool:
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return not plain or (text.isalpha() and len(text) <= SHORT)


RECORDED = Examples() if "SVC_RECORD_EXAMPLES" in os.environ else None
if RECORDED is not None:
    atexit.register(RECORDED.write)
