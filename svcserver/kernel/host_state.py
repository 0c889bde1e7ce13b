"""The state of a host (services, faults and machine), stored in a file.

``svc-stack`` writes the file, and the dashboard's overview reads it.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import attrs
from attrs import field, frozen
from cattrs import Converter

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json

STATE_FILE = "host-state.json"
FRESH_S = 180.0  # an older file is ignored: its writer has stopped
MOST = 100  # faults
MOST_INCIDENTS = 50
MOST_BYTES = 1 << 20
READY, STARTING, DOWN = "ready", "starting", "down"
STACK = "stack"  # the name of svc-stack's settings
_CONVERTER = Converter(detailed_validation=False)


@frozen
class ServiceState:
    """A service; ``since`` is the start of its process in epoch seconds, or None if unknown."""

    name: str
    state: str
    since: float | None = None
    restarts: int = 0
    version: str = ""


@frozen
class HostFault:
    """A lasting fault: the kind and the title of its alert, and its start in epoch seconds."""

    kind: str
    title: str
    text: str
    since: float


@frozen
class Incident:
    """A reported fault, with its start and end in epoch seconds.

    ``until`` is None while the fault lasts.
    """

    title: str
    text: str
    since: float
    until: float | None = None


@frozen
class MachineSample:
    """The machine's load at the time ``at``, in epoch seconds.

    Sizes are in bytes, and None means that a figure is unknown. ``files`` is the number of
    open files of the service that is closest to its limit, and ``most_files`` is that limit.
    """

    at: float
    cpu_percent: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    disk_used: int | None = None
    disk_total: int | None = None
    files: int | None = None
    most_files: int | None = None


@frozen
class HostState:
    """The state of a host at the time ``at``; ``machine`` has the last hour's load, oldest first.

    ``incidents`` are the latest ``MOST_INCIDENTS`` reported faults, newest first. ``environment``
    has the environment variables that override ``stack.env``; a secret's value is None. ``changed``
    maps a service to the settings that have changed in its env file since the service started. The
    value None means that the file has changed in an unknown way.
    """

    at: float
    services: tuple[ServiceState, ...] = ()
    faults: tuple[HostFault, ...] = ()
    machine: tuple[MachineSample, ...] = ()
    environment: Mapping[str, str | None] = field(factory=dict)
    changed: Mapping[str, tuple[str, ...] | None] = field(factory=dict)
    incidents: tuple[Incident, ...] = ()


def write(folder: Path, state: HostState) -> None:
    """Write the state to a file that only its owner can read; raises OSError."""
    replace_json(folder / STATE_FILE, folder / f"{STATE_FILE}.new", attrs.asdict(state))


def read(folder: Path, now: float) -> HostState | None:
    """Return the host's state, or None if there is no recent file."""
    state = stored(folder)
    return state if state is not None and abs(now - state.at) <= FRESH_S else None


def stored(folder: Path) -> HostState | None:
    """Return the state in the host's file, however old it is; None if the file is unreadable."""
    path = folder / STATE_FILE
    try:
        status = path.stat()
        if status.st_size > MOST_BYTES:
            return None
        return _read(path, status.st_mtime_ns, status.st_ino)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=1)  # many pages read it every second, and it changes every fifteen
def _read(path: Path, changed_at: int, inode: int) -> HostState:
    return _CONVERTER.structure(json.parse(path.read_bytes()), HostState)
