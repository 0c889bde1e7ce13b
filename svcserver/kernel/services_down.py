"""Which services of a host are down: written by whoever watches them, read by the overview."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from svcserver.kernel import json

STATE_FILE = "services-down.json"
AGAIN_S = 60.0  # written anew so often, though nothing has changed
FRESH_S = 180.0  # older news is no news: nobody watches any more
MOST = 100


def write(folder: Path, down: Mapping[str, float], now: float) -> None:
    """Replace the file: each service's name, and since when (epoch seconds); raises OSError."""
    fresh = folder / f"{STATE_FILE}.new"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump({"at": now, "down": dict(down)}))
    fresh.replace(folder / STATE_FILE)


def read(folder: Path, now: float) -> dict[str, float]:
    """What is down; nothing where nobody watches, or has lately."""
    try:
        said = json.parse((folder / STATE_FILE).read_bytes())
        if abs(now - float(said["at"])) > FRESH_S:
            return {}
        found = sorted(said["down"].items())[:MOST]
        return {str(name): float(since) for name, since in found}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
