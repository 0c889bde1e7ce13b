"""Rules of cooldowns. Spec: 1 §4 PUT /cooldown."""

import re
from collections.abc import Mapping

_ONE_TIME = re.compile(r"[0-9A-F]{32}\Z")  # ids that game servers make for one use


def expired(started: Mapping[str, str], yesterday: str) -> list[str]:
    """Return the ids of the one-time cooldowns that are older than ``yesterday``."""
    return [name for name, date in started.items() if _ONE_TIME.match(name) and date < yesterday]
