"""``svcctl account rename``, ``saves``, ``rollback``, ``grant``, ``registration``, ``guild`` ...

What the dashboard does besides: asked of the running metagame with the owner's key, so that players
who are online see it at once.
"""

from __future__ import annotations

from typing import Any

import click

from svcserver.ctl.as_owner import Owner, owner_of
from svcserver.ctl.host import Host, about_a_host, with_reason
from svcserver.ctl.output import Out, fail
from svcserver.ctl.people import account

__all__ = ["account", "guild", "registration"]

MODES = ("OPEN", "INVITECODE", "NONE")


def _person(owner: Owner, name: str) -> dict[str, Any]:
    """The account of that name or id; fails with one line."""
    found: dict[str, Any] | None = owner.find("DashboardPerson", Account=name[:64])
    if found is None:
        fail(f"no account is called {name[:64]}")
    return found


@account.command("show")
@click.argument("name")
@about_a_host
def show(host: Host, out: Out, name: str) -> None:
    """All that staff sees of an account."""
    found = _person(owner_of(host), name)
    out.data(found)
    out.say(*(f"{key:<15}{value}" for key, value in found.items() if value is not None))


@account.command("rename")
@click.argument("name")
@click.argument("new")
@with_reason
@about_a_host
def rename(host: Host, out: Out, name: str, new: str, reason: str) -> None:
    """Give an account and its characters another name."""
    owner = owner_of(host)
    body = {"UserId": _person(owner, name)["id"], "NewUsername": new}
    said = owner.act("RenameUser", body, reason)
    out.data(said)
    out.say(f"{said['OldUsername']} is now {said['Username']}")


@account.command("saves")
@click.argument("name")
@about_a_host
def saves(host: Host, out: Out, name: str) -> None:
    """The saves of an account's characters and loadouts, the newest first."""
    found = _history(owner_of(host), name)
    out.data(found)
    out.table(
        ["character", "of", "version", "saved (UTC)", "by"],
        [
            [one["Name"], kind, str(row["Version"]), _second(row["SavedDate"]), row["Reason"]]
            for one in found["Characters"]
            for kind, rows in (("save", "CharacterVersions"), ("loadouts", "LoadoutVersions"))
            for row in one[rows]
        ],
    )


@account.command("rollback")
@click.argument("name")
@click.argument("version", type=click.IntRange(0))
@click.option("--character", default="", help="Its name; needed where there are several.")
@click.option("--loadouts", is_flag=True, help="Its loadouts instead of its save.")
@click.option("--kick", is_flag=True, help="Log the player off first, who would save over it.")
@with_reason
@about_a_host
def rollback(
    host: Host,
    out: Out,
    name: str,
    version: int,
    character: str,
    loadouts: bool,
    kick: bool,
    reason: str,
) -> None:
    """Make an older save the newest; svcctl account saves lists them."""
    owner = owner_of(host)
    who = _person(owner, name)
    found = [
        one
        for one in _history(owner, who["id"])["Characters"]
        if character in ("", one["Name"], one["CharacterId"])
    ]
    if len(found) != 1:
        names = ", ".join(one["Name"] for one in found)
        fail(f"{who['name']} has no such character" if not found else f"name one of: {names}")
    if kick:
        owner.act("DashboardKick", {"Account": who["id"]}, reason or "rolled back")
    elif who["where"] is not None:
        out.say(
            f"{who['name']} is online ({who['where']}): the next save replaces this; see --kick"
        )
    body = {"CharacterId": found[0]["CharacterId"], "Version": version}
    said = owner.act("RollbackLoadout" if loadouts else "RollbackCharacter", body, reason)
    out.data({"username": who["name"], "character": found[0]["Name"], "kicked": kick, **said})
    out.say(f"{found[0]['Name']} is back at version {said['RolledBackTo']}")


@account.command("grant")
@click.argument("name")
@click.argument("entitlement")
@click.option("--hours", type=click.FloatRange(0), default=0.0, help="How long; 0: for ever.")
@with_reason
@about_a_host
def grant(host: Host, out: Out, name: str, entitlement: str, hours: float, reason: str) -> None:
    """Give an account an entitlement."""
    owner = owner_of(host)
    who = _person(owner, name)
    body = {"UserId": who["id"], "Entitlement": entitlement, "Duration": hours}
    out.data(owner.act("GrantEntitlement", body, reason))
    out.say(f"{who['name']} now has {entitlement}")


@account.command("revoke")
@click.argument("name")
@click.argument("entitlement")
@with_reason
@about_a_host
def revoke(host: Host, out: Out, name: str, entitlement: str, reason: str) -> None:
    """Take an entitlement from an account."""
    owner = owner_of(host)
    who = _person(owner, name)
    body = {"UserId": who["id"], "Entitlement": entitlement}
    said = owner.act("RevokeEntitlement", body, reason)
    out.data(said)
    gone = f"{entitlement} revoked from {who['name']}"
    out.say(gone if said["Revoked"] else f"{who['name']} did not have {entitlement}")


@account.command("seed")
@click.argument("name")
@click.argument("mode", type=click.Choice(["fresh", "grandfather"]))
@with_reason
@about_a_host
def seed(host: Host, out: Out, name: str, mode: str, reason: str) -> None:
    """Write every track of an account anew: at its beginning, or at its end."""
    owner = owner_of(host)
    who = _person(owner, name)
    said = owner.act("SeedProgression", {"UserId": who["id"], "Mode": mode}, reason)
    out.data(said)
    out.say(f"{len(said['Tracks'])} tracks of {who['name']} written ({said['Mode']})")


@click.command()
@click.argument("mode", type=click.Choice(MODES, case_sensitive=False), required=False)
@with_reason
@about_a_host
def registration(host: Host, out: Out, mode: str | None, reason: str) -> None:
    """Who may register; with MODE changed until the metagame starts again."""
    owner = owner_of(host)
    if mode is None:
        said = owner.read("RegistrationStatus")
    else:
        said = owner.act("RegistrationStatus", {"RegistrationStatus": mode.upper()}, reason)
    out.data(said)
    out.say(f"registration is {said.get('RegistrationMode', 'not set')}")


@click.group()
def guild() -> None:
    """List guilds, and end one."""


@guild.command("list")
@about_a_host
def listed(host: Host, out: Out) -> None:
    """Every guild, its leader and size."""
    found = owner_of(host).find("Guilds")
    if found is None:
        fail("guilds are switched off (GUILDS=0)")
    out.data({"guilds": found})
    rows = [[one["name"], one["leader"] or "", str(one["members"])] for one in found]
    out.table(["guild", "leader", "members"], rows)


@guild.command("disband")
@click.argument("name")
@with_reason
@about_a_host
def disband(host: Host, out: Out, name: str, reason: str) -> None:
    """End a guild; its members are told."""
    said = owner_of(host).act("DisbandGuild", {"Guild": name}, reason)
    out.data(said)
    out.say(f"{said['Guild']} disbanded; {said['Members']} members told")


def _history(owner: Owner, name: str) -> dict[str, Any]:
    who = _person(owner, name)
    found: dict[str, Any] | None = owner.find("SaveHistory", UserId=who["id"])
    return {"Characters": []} if found is None else found


def _second(iso: str) -> str:
    return iso[:19].replace("T", " ")
