"""What a batch of cooldowns says. Spec: 1 §4 PUT /cooldown/batch."""

from __future__ import annotations

import re

from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed

MAX_DATE = 64  # characters
DAY_MS = 86_400_000
_THROWAWAY = re.compile(r"[0-9A-F]{32}\Z")


def read_batch(body: Json, now: str) -> dict[str, str]:
    """Start times by id, as sent; entries without id are skipped.  Raises Malformed."""
    listed = body.get("cooldowns") if isinstance(body, dict) else None
    if isinstance(listed, dict):
        listed = [{"cooldown_id": k, "cooldown_started_date": v} for k, v in listed.items()]
    if not isinstance(listed, list):
        raise Malformed("cooldowns must be a list")
    found = {}
    for one in listed:
        name = one.get("cooldown_id") if isinstance(one, dict) else None
        if is_name(name):
            found[str(name)] = _date(one.get("cooldown_started_date"), now)
    return found


def _date(value: Json, now: str) -> str:
    if value is None or value == "":
        return now
    if not isinstance(value, str) or len(value) > MAX_DATE or not value.isprintable():
        raise Malformed("cooldown_started_date must be a date")
    return value


def is_throwaway(cooldown_id: str) -> bool:
    """Ids made up by game servers for one use; they are dropped after a day."""
    return _THROWAWAY.match(cooldown_id) is not None
