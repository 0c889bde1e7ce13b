"""What whoever sends alerts says of its channels, and what the metagame asks it to try.

Files in the folder in which both run: the channels' own hold addresses that are secrets, and may
lie where the metagame does not look.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from svcserver.kernel import json

STATE_FILE = "alert-channels.json"
FORM = 1  # of that file; another is ignored
FRESH_S = 90.0  # it is touched every 15 s while somebody sends alerts
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
MOST = 16  # channels
TEST = "alert-test-"  # and the channel's name: a file for each test that is asked for
ASKED_S = 60.0  # an older one is of another evening
MAX_WHY = 300  # characters


@frozen
class Told:
    """The last try to tell somebody; ``why`` it did not arrive, empty where it did."""

    at: float
    title: str
    why: str = ""


@frozen
class AlertChannel:
    """A way to tell somebody; ``about`` empty: everything, ``quiet`` like 23:00-07:00 or empty."""

    name: str
    form: str
    about: tuple[str, ...] = ()
    quiet: str = ""
    last: Told | None = None


@frozen
class AlertChannels:
    """All of a host, and what is wrong with files that are none."""

    all: Sequence[AlertChannel] = ()
    wrong: Sequence[str] = ()


def is_name(text: str) -> bool:
    """Whether a channel can be called so: small letters, digits and -, at most 32."""
    return _NAME.match(text) is not None


def read(folder: Path, now: float) -> AlertChannels | None:
    """The channels; None where nobody sends alerts now."""
    path = folder / STATE_FILE
    try:
        if abs(now - path.stat().st_mtime) > FRESH_S:
            return None
        return _read(json.parse(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(said: Any) -> AlertChannels:
    if said["form"] != FORM:
        raise ValueError("of another form")
    found = []
    for one in said["all"][:MOST]:
        last = None if one["last"] is None else Told(**one["last"])
        found.append(AlertChannel(**{**one, "about": tuple(one["about"]), "last": last}))
    return AlertChannels(found, [str(one) for one in said["wrong"][:MOST]])


def write(folder: Path, channels: AlertChannels) -> None:
    """Replace the file, which only its owner reads; raises OSError."""
    _put(folder / STATE_FILE, {"form": FORM, **attrs.asdict(channels)})


def ask(folder: Path, name: str, now: float) -> None:
    """Ask for a test of the channel of that name; raises OSError."""
    _put(folder / f"{TEST}{name}", {"at": now})


def asked(folder: Path, now: float) -> list[str]:
    """The names of the channels that are to be tried, once; raises OSError."""
    found = []
    for path in sorted(folder.glob(f"{TEST}*"))[: 2 * MOST]:
        name = path.name.removeprefix(TEST)
        if not is_name(name):
            continue
        fresh = abs(now - path.stat().st_mtime) <= ASKED_S
        path.unlink()  # what cannot be taken away would be done again and again
        if fresh:
            found.append(name)
    return found


def _put(path: Path, said: dict[str, object]) -> None:
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(json.dump(said))
    fresh.replace(path)
