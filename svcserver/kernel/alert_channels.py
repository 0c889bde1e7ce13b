"""The state of a host's alert channels, and the metagame's requests for test alerts.

The state and the requests are files in the services' working folder. The program that sends alerts
writes the state: each channel with its newest deliveries. For the files that define the channels,
see ``alert_settings``.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json

STATE_FILE = "alert-channels.json"
FORM = 2  # version of the state file; other versions are ignored
FRESH_S = 90.0  # the program that sends alerts touches the file every 15 s
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
MOST = 16  # channels
TEST = "alert-test-"  # the channel's name is appended: one file for each requested test
ASKED_S = 60.0  # older requests are ignored
MOST_DELIVERIES = 20  # of a channel


@frozen
class Delivery:
    """An alert and its last delivery attempt.

    ``why`` says why the attempt failed; it is empty if the alert was delivered.
    """

    at: float
    title: str
    why: str = ""


@frozen
class AlertChannel:
    """A way to notify somebody, and its last deliveries, newest first.

    If ``about`` is empty, the channel gets every alert. ``quiet`` is the daily period without
    alerts; it is empty if there is no such period.
    """

    name: str
    form: str
    about: tuple[str, ...] = ()
    quiet: str = ""
    deliveries: tuple[Delivery, ...] = ()

    @property
    def last(self) -> Delivery | None:
        return self.deliveries[0] if self.deliveries else None


@frozen
class AlertChannels:
    """All alert channels of a host; ``wrong`` lists faults in the channels' files.

    ``on`` is False if the program that sends alerts has stopped.
    """

    all: Sequence[AlertChannel] = ()
    wrong: Sequence[str] = ()
    on: bool = True


def is_name(text: str) -> bool:
    """Return whether ``text`` is a channel name: up to 32 characters from a-z, 0-9 and -."""
    return _NAME.match(text) is not None


def read(folder: Path, now: float) -> AlertChannels | None:
    """Return the alert channels, or None if no program currently sends alerts."""
    try:
        if abs(now - (folder / STATE_FILE).stat().st_mtime) > FRESH_S:
            return None
    except OSError:
        return None
    state = stored(folder)
    return state if state is not None and state.on else None


def stored(folder: Path) -> AlertChannels | None:
    """Return the channels in the state file, however old it is; None if it is unreadable."""
    try:
        return _read(json.parse((folder / STATE_FILE).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(state: Any) -> AlertChannels:
    if state["form"] != FORM:
        raise ValueError("the file has an unknown format")
    channels = []
    for item in state["all"][:MOST]:
        deliveries = tuple(Delivery(**entry) for entry in item["deliveries"][:MOST_DELIVERIES])
        about = tuple(item["about"])
        channels.append(AlertChannel(**{**item, "about": about, "deliveries": deliveries}))
    return AlertChannels(channels, [str(text) for text in state["wrong"][:MOST]], state["on"])


def write(folder: Path, channels: AlertChannels) -> None:
    """Write the state to a file that only its owner can read; raises OSError."""
    _put(folder / STATE_FILE, {"form": FORM, **attrs.asdict(channels)})


def request_test(folder: Path, name: str, now: float) -> None:
    """Request a test of the channel with this name; raises OSError."""
    _put(folder / f"{TEST}{name}", {"at": now})


def take_test_requests(folder: Path, now: float) -> list[str]:
    """Delete all requests for tests, and return the channels to test; raises OSError."""
    names = []
    for path in sorted(folder.glob(f"{TEST}*"))[: 2 * MOST]:
        name = path.name.removeprefix(TEST)
        if not is_name(name):
            continue
        fresh = abs(now - path.stat().st_mtime) <= ASKED_S
        path.unlink()  # a request that stays would be carried out repeatedly
        if fresh:
            names.append(name)
    return names


def _put(path: Path, content: dict[str, object]) -> None:
    replace_json(path, path.with_name(f".{path.name}.new"), content)
