"""``WORKERS``: several metagames on one machine, each with its own ports.

The workers' ports begin at ``WORKER_PORTS``, and the gateway gets the URLs of all workers. In
addition, all workers listen on the PORT in ``metagame.env``. So the content server, game servers
and the owner reach a running worker at the usual address. The first worker keeps the usual ports
for chat and metrics.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from svcserver.kernel.backup_settings import STACK_FILE
from svcserver.kernel.settings import BadSetting, parse_env_file, whole
from svcserver.stack.components import Component

MOST = 64
EACH = 3  # ports of a worker: PORT, CHAT_PORT and METRICS_PORT
WORKER_FILE = STACK_FILE
METAGAME, GATEWAY = "metagame", "gateway"
LOCAL_DATABASE, LOCAL_STATE = "sqlite", "memory:"


@frozen
class FirstPorts:
    """The first worker's ports: PORT and CHAT_PORT of metagame.env, or their defaults."""

    port: int = 61000
    chat_port: int = 61099


def check(count: int, variables: Mapping[str, str]) -> None:
    """Raise BadSetting if a metagame with these settings cannot run as ``count`` processes."""
    if count == 1:
        return
    database = variables.get("DATABASE_URL") or LOCAL_DATABASE
    state = variables.get("LIVE_URL") or LOCAL_STATE
    if database.startswith(LOCAL_DATABASE):
        raise BadSetting(
            f"WORKERS={count}: DATABASE_URL in metagame.env is SQLite, to which only one "
            "process can write. "
            "Set a postgresql:// URL (svcctl db copy moves the data), or WORKERS=1."
        )
    if state.startswith(LOCAL_STATE):
        raise BadSetting(
            f"WORKERS={count}: LIVE_URL in metagame.env is memory:, which processes cannot share. "
            "Set valkey://HOST:PORT, or WORKERS=1."
        )


def spread(single: Sequence[Component], count: int, first: int) -> list[Component]:
    """Return the components, with the metagame replaced by ``count`` workers behind the gateway."""
    if count == 1:
        return list(single)
    [metagame] = [component for component in single if component.name == METAGAME]
    variables = read_env_file(metagame.env_file)
    check(count, variables)
    if first + EACH * count > 65_536:
        raise BadSetting(
            f"WORKER_PORTS={first} leaves too few ports for {count} workers. Lower WORKER_PORTS."
        )
    workers, ports = [], []
    for number in range(1, count + 1):
        extra = _extra(variables, number, first)
        ports.append(_ports(variables | extra))
        workers.append(evolve(metagame, name=f"{METAGAME}-{number}", plugin=METAGAME, extra=extra))
    urls = {
        "GATEWAY_METAGAME_URL": _urls([worker.port for worker in ports]),
        "GATEWAY_WS_URL": _urls([worker.chat_port for worker in ports]),
    }
    rest = [
        evolve(component, extra=urls) if component.name == GATEWAY else component
        for component in single
        if component.name != METAGAME
    ]
    return [*workers, *rest]


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of an env file, or raise BadSetting."""
    try:
        return parse_env_file(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadSetting(f"{path} cannot be read: {reason}") from None


def _extra(variables: Mapping[str, str], number: int, first: int) -> dict[str, str]:
    at = first + EACH * (number - 1)
    extra = {"PORT": str(at), "SHARED_PORT": str(_ports(variables).port)}
    if number > 1:
        extra["CHAT_PORT"] = str(at + 1)
        if variables.get("METRICS_PORT"):
            extra["METRICS_PORT"] = str(at + 2)
    return extra


def _ports(variables: Mapping[str, str]) -> FirstPorts:
    default = FirstPorts()
    try:
        return FirstPorts(
            int(variables.get("PORT") or default.port),
            int(variables.get("CHAT_PORT") or default.chat_port),
        )
    except ValueError:
        raise BadSetting("PORT and CHAT_PORT in metagame.env must be ports") from None


def _urls(ports: Sequence[int]) -> str:
    return ",".join(f"http://127.0.0.1:{port}" for port in ports)


workers = whole(1, MOST)
