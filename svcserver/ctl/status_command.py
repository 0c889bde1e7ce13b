"""The commands ``svcctl status`` and ``svcctl figures``, which show players, servers and health."""

from contextlib import suppress
from datetime import UTC, datetime
from threading import Event
from typing import Any

import click

from svcserver.ctl.as_owner import by_key, owner_of
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Failed, Out, counted, fail
from svcserver.kernel.foreign_text import cell

EVERY_S = 2.0
NO_HEALTH = (401, 403, 404)  # 404: BACKEND_HEALTH is off; others: not an admin's key


@host_command(None, "status")
@click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--key", help="An account key. Default: the owner's.")
def status(host: Host, out: Out, watch: bool, key: str | None) -> None:
    """Show players online, game servers and health."""
    state_and_health = fetch_status(host, key)
    if not watch:
        print_status(out, *state_and_health)
        return
    pause = Event()
    with suppress(KeyboardInterrupt):
        draw(out, *state_and_health)  # a wrong key has already failed above
        while not pause.wait(EVERY_S):
            draw_again(host, key, out)


def fetch_status(
    host: Host, key: str | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the server status and the health.

    The health is None if BACKEND_HEALTH is off or if the key's role does not allow it. Without
    ``key``, the requests are made as the host's owner.
    """
    owner = owner_of(host) if key is None else by_key(host, key)
    state = owner.get("ServerStatus")
    if state.get("limited"):
        fail("The metagame does not know this key. Give --key with an account key.")
    return state, owner.find("BackendHealth", nothing=NO_HEALTH)


def draw_again(host: Host, key: str | None, out: Out) -> None:
    """Redraw the live table, or show the error while the metagame restarts."""
    try:
        draw(out, *fetch_status(host, key))
    except Failed as why:
        click.clear()
        out.text(why.message)


def draw(out: Out, state: dict[str, Any], health: dict[str, Any] | None) -> None:
    """Print the status in place of the previous one."""
    click.clear()
    print_status(out, state, health, live=True)


def print_status(
    out: Out, state: dict[str, Any], health: dict[str, Any] | None, *, live: bool = False
) -> None:
    """Print the status as text; if ``live``, print the health in one line."""
    out.data({"status": state, "health": health})
    out.text(headline(state))
    rows = [[entry["name"], entry["where"]] for entry in state["players"]]
    if rows:
        out.table(["player", "where"], rows)
    rows = [instance(entry) for entry in state["instances"]]
    if rows:
        out.table(["instance", "map", "players", "since"], rows)
    lines = [f"{name}: {value}" for name, value in health_lines(health)]
    out.text(*(["  ".join(map(cell, lines))] if live else lines))


def headline(state: dict[str, Any]) -> str:
    """Return the status of the server in one line."""
    return (
        f"{state['name']} {state['version']}: {state['playersOnline']} online, "
        f"{counted(len(state['instances']), 'instance')}, registration {state['registration']}, "
        f"up {state['uptimeSeconds']} s"
    )


def instance(entry: dict[str, Any]) -> list[str]:
    """Return a game server as a table row."""
    maximum = entry.get("maxPlayers")
    count = f"{entry.get('players', 0)}/{maximum}" if maximum else str(entry.get("players", 0))
    return [
        f"{entry['kind']} {entry.get('title') or ''}".strip(),
        *map(str, (entry.get("map") or "", count, entry.get("startedAt") or "")),
    ]


def health_lines(health: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the health as text for people, without ``bans``, whose value is always the same."""
    return flat({name: value for name, value in (health or {}).items() if name != "bans"})


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Return nested health values as pairs of a dotted name and a text."""
    if not isinstance(value, dict):
        return [(name, str(value))]
    return [
        pair
        for key, child in value.items()
        for pair in flat(child, f"{name}.{key}" if name else key)
    ]


RANGES = ("hour", "day", "week", "weeks")
FIGURE_HEADS = [
    "from (UTC)",
    "requests/s",
    "95 % within",
    "4xx",
    "5xx",
    "loop lag p95",
    "memory",
    "players",
    "most",
]
MOST_LINES = 60  # a day has 1,440 minutes


@host_command(None, "figures")
@click.option(
    "--range", "span", type=click.Choice(RANGES), default="day", help="The period to show."
)
def figures(host: Host, out: Out, span: str) -> None:
    """Show load, errors, memory and players over time.

    "hour" and "day" have a row for each minute. "week" has a row for each hour. "weeks" are the
    last eight weeks, with a row for each day. The table shows the newest rows; --json prints all.
    """
    data = owner_of(host).find("DashboardFigures", range=span)
    if data is None:
        fail(
            "No health figures are collected. "
            "Set BACKEND_HEALTH=1 in metagame.env and restart the metagame."
        )
    out.data(data)
    rows = [_figure_row(data, number) for number in range(len(data["at"]))]
    out.table(FIGURE_HEADS, rows[-MOST_LINES:])


def _figure_row(data: dict[str, Any], number: int) -> list[str]:
    def text(column: str, unit: str = "") -> str:
        value = data[column][number]
        return "-" if value is None else f"{value}{unit}"

    return [
        datetime.fromtimestamp(data["at"][number], UTC).strftime("%Y-%m-%d %H:%M"),
        text("requestsPerSecond"),
        text("latencyP95UpperMs", " ms"),
        text("clientErrors"),
        text("serverErrors"),
        text("loopP95Ms", " ms"),
        text("rssMB", " MB"),
        text("players"),
        text("playersMost"),
    ]
