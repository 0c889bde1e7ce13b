"""The list of a host's services that are down; the stack writes it, the overview reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json

STATE_FILE = "services-down.json"
AGAIN_S = 60.0  # seconds between two writes of the file
FRESH_S = 180.0  # an older file is ignored: its writer has stopped
MOST = 100


def write(folder: Path, down: Mapping[str, float], now: float) -> None:
    """Write the name of each service that is down, and since when in epoch seconds."""
    state = {"at": now, "down": dict(down)}
    replace_json(folder / STATE_FILE, folder / f"{STATE_FILE}.new", state)


def read(folder: Path, now: float) -> dict[str, float]:
    """Return the services that are down; empty if there is no recent file."""
    try:
        content = json.parse((folder / STATE_FILE).read_bytes())
        if abs(now - float(content["at"])) > FRESH_S:
            return {}
        services = sorted(content["down"].items())[:MOST]
        return {str(name): float(since) for name, since in services}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
