"""Records what rows were really sent and answered, as the examples of the OpenAPI document.

    SVC_RECORD_EXAMPLES=1 .venv/bin/python -m pytest tests/metagame -m "not live"

runs the feature tests and writes EXAMPLES anew; a test in tests/web/test_openapi.py compares each
of them with the shapes of its row, and says when this is due.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from svcserver.kernel.redaction import redact
from svcserver.metagame.owner.dashboard import document
from svcserver.web.response import encode_body
from svcserver.web.routes import Answer

EXAMPLES = Path(document.__file__).parent / "data" / document.EXAMPLES
LONGEST = 1_500  # bytes of an example; of longer lists the first entries are enough, or the first
ENTRIES = 2
SECRETS = ("secret", "Secret")  # of a second factor: it has the shape of a plain word


@define
class Examples:
    """For each row the richest body that was sent, and the richest that was answered."""

    sent: dict[str, Any] = field(factory=dict)
    answered: dict[str, Any] = field(factory=dict)

    def note(self, row: str, sent: bytes, answer: Answer) -> None:
        """Keep what a row was sent and what it answered, where it is better than before."""
        _keep(self.sent, row, sent)
        if answer.content_type.startswith("application/json"):
            _keep(self.answered, row, encode_body(answer))

    def write(self) -> None:
        """Write them, sorted, without what has the shape of a secret."""
        rows = sorted(self.sent | self.answered)
        found = {
            row: {
                name: kept[row]
                for name, kept in (("sent", self.sent), ("answered", self.answered))
                if row in kept
            }
            for row in rows
        }
        text = orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()
        lines = [redact(line) for line in text.splitlines()]
        EXAMPLES.parent.mkdir(exist_ok=True)
        EXAMPLES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _keep(kept: dict[str, Any], row: str, body: bytes) -> None:
    try:
        sent = orjson.loads(body)
    except ValueError:
        return
    for entries in (ENTRIES, 1):
        value = _shortened(sent, entries)
        size = len(orjson.dumps(value))
        if size <= LONGEST:
            if size > len(orjson.dumps(kept.get(row))):
                kept[row] = value
            return


def _shortened(value: Any, entries: int) -> Any:
    if isinstance(value, list):
        return [_shortened(one, entries) for one in value[:entries]]
    if isinstance(value, dict):
        return {
            key: "<secret>" if key in SECRETS else _shortened(one, entries)
            for key, one in value.items()
        }
    return value


RECORDED = Examples() if "SVC_RECORD_EXAMPLES" in os.environ else None
if RECORDED is not None:
    atexit.register(RECORDED.write)
