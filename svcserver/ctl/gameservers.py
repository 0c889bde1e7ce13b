"""``svcctl gameserver``: game servers one by one, through the running metagame."""

from __future__ import annotations

from typing import Any

import click

from svcserver.ctl.as_owner import owner_of
from svcserver.ctl.host import Host, about_a_host, with_reason
from svcserver.ctl.output import Out, fail

LIST, ACT, CONSOLE = "DashboardGameServers", "DashboardGameServer", "DashboardConsole"


@click.group()
def gameserver() -> None:
    """List, start, stop and restart game servers, and read what they print."""


@gameserver.command("list")
@about_a_host
def show(host: Host, out: Out) -> None:
    """List the game servers that run."""
    said = owner_of(host).read(LIST)
    out.data(said)
    rows = [
        [one["id"], one["kind"], str(one["port"]), one["map"], one["startedAt"] or ""]
        for one in said["servers"]
    ]
    out.table(["id", "kind", "port", "map", "since"], rows)


@gameserver.command("start")
@click.argument("kind", type=click.Choice(["city", "dojo"]))
@with_reason
@about_a_host
def start(host: Host, out: Out, kind: str, reason: str) -> None:
    """Start the city or the dojo; hunts start when players ask for them."""
    said = owner_of(host).act(ACT, {"Act": "start", "Kind": kind}, reason)
    out.data(said)
    out.say(f"the {kind} runs: {said['id']}")


@gameserver.command("stop")
@click.argument("server")
@with_reason
@about_a_host
def stop(host: Host, out: Out, server: str, reason: str) -> None:
    """End one, by its id or the beginning of it, or by its kind if it is the only one."""
    found, said = _act(host, server, "stop", reason)
    out.data(said)
    out.say(f"{found['kind']} {found['id']} has ended")


@gameserver.command("restart")
@click.argument("server")
@with_reason
@about_a_host
def restart(host: Host, out: Out, server: str, reason: str) -> None:
    """End the city or the dojo and start it again."""
    found, said = _act(host, server, "restart", reason)
    out.data(said)
    out.say(f"the {found['kind']} runs again: {said['id']}")


@gameserver.command("console")
@click.argument("server")
@about_a_host
def console(host: Host, out: Out, server: str) -> None:
    """The last lines that one has printed."""
    owner = owner_of(host)
    found = _found(owner.read(LIST), server)
    said = owner.read(CONSOLE, Id=found["id"])
    out.data(said)
    out.say(*said["lines"])


def _act(host: Host, server: str, act: str, reason: str) -> tuple[dict[str, Any], Any]:
    """Have the act done; gives the game server that was meant, and the answer."""
    owner = owner_of(host)
    found = _found(owner.read(LIST), server)
    return found, owner.act(ACT, {"Act": act, "Id": found["id"]}, reason)


def _found(said: dict[str, Any], wanted: str) -> dict[str, Any]:
    found = [
        one for one in said["servers"] if wanted == one["kind"] or one["id"].startswith(wanted)
    ]
    if len(found) != 1:
        many = "several game servers are" if found else "no game server is"
        fail(f"{many} called {wanted}; see svcctl gameserver list")
    one: dict[str, Any] = found[0]
    return one
