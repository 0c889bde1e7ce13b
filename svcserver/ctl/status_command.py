"""``svcctl status``: players online, running instances, and the metagame's health."""

from __future__ import annotations

from contextlib import suppress
from threading import Event
from typing import Any

import click

from svcserver.ctl.as_owner import by_key, owner_of
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Failed, Out, fail
from svcserver.ctl.play.story import counted
from svcserver.kernel.foreign_text import cell

EVERY_S = 2.0
NO_HEALTH = (401, 403, 404)  # 404 unless BACKEND_HEALTH=1, else for who is no admin


@click.command("status")
@click.option("--watch", is_flag=True, help="A live table; Ctrl-C ends it.")
@click.option("--key", help="An account key; default: as the owner, by the host's folder.")
@about_a_host
def status(host: Host, out: Out, watch: bool, key: str | None) -> None:
    """Who is online, the running instances and the metagame's health."""
    status_and_health = look(host, key)
    if not watch:
        show(out, *status_and_health)
        return
    pause = Event()
    with suppress(KeyboardInterrupt):
        draw(out, *status_and_health)  # a wrong key has ended it before
        while not pause.wait(EVERY_S):
            draw_again(host, key, out)


def look(host: Host, key: str | None = None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The server status, and the health where BACKEND_HEALTH is on and the key an admin's.

    As the owner where no ``key`` is given.
    """
    asks = owner_of(host) if key is None else by_key(host, key)
    said = asks.read("ServerStatus")
    if said.get("limited"):
        fail("the metagame does not know the key; give --key with an account key")
    return said, asks.find("BackendHealth", nothing=NO_HEALTH)


def draw_again(host: Host, key: str | None, out: Out) -> None:
    """Draw the live table; its error instead while the metagame restarts."""
    try:
        draw(out, *look(host, key))
    except Failed as why:
        click.clear()
        out.say(why.message)


def draw(out: Out, said: dict[str, Any], health: dict[str, Any] | None) -> None:
    """Print the status in the place of the last one."""
    click.clear()
    show(out, said, health, live=True)


def show(
    out: Out, said: dict[str, Any], health: dict[str, Any] | None, *, live: bool = False
) -> None:
    """Print the status in plain text; a ``live`` one has the health in one line."""
    out.data({"status": said, "health": health})
    out.say(headline(said))
    rows = [[one["name"], one["where"]] for one in said["players"]]
    if rows:
        out.table(["player", "where"], rows)
    rows = [instance(one) for one in said["instances"]]
    if rows:
        out.table(["instance", "map", "players", "since"], rows)
    lines = [f"{name}: {value}" for name, value in figures(health)]
    out.say(*(["  ".join(map(cell, lines))] if live else lines))


def headline(said: dict[str, Any]) -> str:
    """The server's status in one line."""
    return (
        f"{said['name']} {said['version']}: {said['playersOnline']} online, "
        f"{counted(len(said['instances']), 'instance')}, registration {said['registration']}, "
        f"up {said['uptimeSeconds']} s"
    )


def instance(one: dict[str, Any]) -> list[str]:
    """An instance as a table row."""
    most = one.get("maxPlayers")
    count = f"{one.get('players', 0)}/{most}" if most else str(one.get("players", 0))
    return [
        f"{one['kind']} {one.get('title') or ''}".strip(),
        *map(str, (one.get("map") or "", count, one.get("startedAt") or "")),
    ]


def figures(health: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The health for people; what its contract says of bans is of before there were any."""
    return flat({name: one for name, one in (health or {}).items() if name != "bans"})


def flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested health figures as pairs of a dotted name and a text."""
    if not isinstance(value, dict):
        return [(name, str(value))]
    return [
        pair for key, one in value.items() for pair in flat(one, f"{name}.{key}" if name else key)
    ]
