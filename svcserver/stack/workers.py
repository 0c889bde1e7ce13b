"""``WORKERS``: several metagames on one machine, each with ports of its own.

Each has a port of its own from ``WORKER_PORTS`` on, and the gateway is told of all of them. On
the PORT of ``metagame.env`` all of them listen together, so that the content server, game servers
and the owner find one that lives where they always do. Chat and metrics of the first stay where
they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from svcserver.kernel.settings import BadSetting, parse_env_file, whole
from svcserver.stack.components import Component

MOST = 64
EACH = 3  # ports of a worker: PORT, CHAT_PORT and METRICS_PORT
WORKER_FILE = "stack.env"
METAGAME, GATEWAY = "metagame", "gateway"
LOCAL_DATABASE, LOCAL_STATE = "sqlite", "memory:"


@frozen
class Ports:
    """The first worker's ports: PORT and CHAT_PORT of metagame.env, or their defaults."""

    port: int = 61000
    chat_port: int = 61099


def check(count: int, variables: Mapping[str, str]) -> None:
    """Whether the metagame of these settings can be ``count`` processes; raises BadSetting."""
    if count == 1:
        return
    database = variables.get("DATABASE_URL") or LOCAL_DATABASE
    state = variables.get("LIVE_URL") or LOCAL_STATE
    if database.startswith(LOCAL_DATABASE):
        raise BadSetting(
            f"WORKERS={count}: DATABASE_URL in metagame.env is SQLite, which one process writes; "
            "set a postgresql:// one (svcctl db copy moves the data), or WORKERS=1"
        )
    if state.startswith(LOCAL_STATE):
        raise BadSetting(
            f"WORKERS={count}: LIVE_URL in metagame.env is memory:, which each process has for "
            "itself; set valkey://HOST:PORT, or WORKERS=1"
        )


def spread(wanted: Sequence[Component], count: int, first: int) -> list[Component]:
    """``wanted`` with ``count`` metagames, and a gateway that knows all of them."""
    if count == 1:
        return list(wanted)
    [metagame] = [one for one in wanted if one.name == METAGAME]
    variables = read(metagame.env_file)
    check(count, variables)
    if first + EACH * count > 65_536:
        raise BadSetting(f"WORKER_PORTS={first} leaves no ports for {count} workers; lower it")
    workers, ports = [], []
    for number in range(1, count + 1):
        mine = _extra(variables, number, first)
        ports.append(_ports(variables | mine))
        workers.append(evolve(metagame, name=f"{METAGAME}-{number}", plugin=METAGAME, extra=mine))
    told = {
        "GATEWAY_METAGAME_URL": _urls([one.port for one in ports]),
        "GATEWAY_WS_URL": _urls([one.chat_port for one in ports]),
    }
    rest = [
        evolve(one, extra=told) if one.name == GATEWAY else one
        for one in wanted
        if one.name != METAGAME
    ]
    return [*workers, *rest]


def read(path: Path) -> dict[str, str]:
    """The lines of an env file; raises BadSetting."""
    try:
        return parse_env_file(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "it is not UTF-8 text"
        raise BadSetting(f"{path} cannot be read: {reason}") from None


def _extra(variables: Mapping[str, str], number: int, first: int) -> dict[str, str]:
    at = first + EACH * (number - 1)
    found = {"PORT": str(at), "SHARED_PORT": str(_ports(variables).port)}
    if number > 1:
        found["CHAT_PORT"] = str(at + 1)
        if variables.get("METRICS_PORT"):
            found["METRICS_PORT"] = str(at + 2)
    return found


def _ports(variables: Mapping[str, str]) -> Ports:
    default = Ports()
    try:
        return Ports(
            int(variables.get("PORT") or default.port),
            int(variables.get("CHAT_PORT") or default.chat_port),
        )
    except ValueError:
        raise BadSetting("PORT and CHAT_PORT in metagame.env must be ports") from None


def _urls(ports: Sequence[int]) -> str:
    return ",".join(f"http://127.0.0.1:{port}" for port in ports)


workers = whole(1, MOST)
"""The reader of WORKERS."""
