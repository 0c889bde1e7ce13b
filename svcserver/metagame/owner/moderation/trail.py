"""A row of the audit log as the dashboard and ``svcctl audit --json`` show it."""

from __future__ import annotations

from typing import Any, TypedDict

from svcserver.kernel import json
from svcserver.kernel.times import iso


class AuditRow(TypedDict):
    """A row of the audit log; ``refused`` says why nothing was done, null where it was."""

    id: int
    at: str
    actor: str
    action: str
    target: str
    reason: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    refused: str | None


def shown(row: dict[str, Any]) -> AuditRow:
    """A row with its time as text, and before and after as objects."""
    return {
        "id": row["id"],
        "at": iso(row["at"] / 1000),
        "actor": row["actor"],
        "action": row["action"],
        "target": row["target"],
        "reason": row["reason"],
        "before": _parsed(row["before"]),
        "after": _parsed(row["after"]),
        "refused": row["refused"],
    }


def _parsed(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.parse(text)
