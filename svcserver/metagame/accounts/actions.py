"""What the audit log calls each act of staff, and what its rows hold; docs/generate.py shows it.

A try that was refused before its act began stands in the log as method and path.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen


class TargetKind(StrEnum):
    """What the target of an act is."""

    ACCOUNT = "account"  # by its name; by its id where there is no such account
    INVITE = "invite"  # the first group of the code
    GUILD = "guild"
    CHANNEL = "channel"  # of alerts, by its name
    GAME_SERVER = "game server"  # by its id; by its kind where it is to be started
    HOST = "host"  # another one, by its key
    FILE = "file"
    NOTHING = ""


@frozen
class Action:
    """What was done, what ``target`` names, and what ``before`` and ``after`` hold."""

    says: str
    target: TargetKind = TargetKind.ACCOUNT
    before: str = ""
    after: str = ""


_SANCTION = "reason, note, by, since, until, networks"
_ROLLED_BACK = "character (its id), name, version, as (the version it was)"
_SERVER = "kind, map, port"
_RUNS = "id, kind, runs"
_USES = "uses (null: without end)"
_DRAIN = "then (what is done once the server is empty), until (what is waited for)"
ACTIONS: Mapping[str, Action] = {
    "ban": Action("banned; its sessions have ended", before=_SANCTION, after=_SANCTION),
    "unban": Action("let in again", before=_SANCTION),
    "mute": Action("muted in the chat", before=_SANCTION, after=_SANCTION),
    "unmute": Action("may write again", before=_SANCTION),
    "kick": Action("logged off"),
    "role": Action("given another role", before="role", after="role"),
    "new key": Action("given another key; its sessions have ended"),
    "merge notes": Action(
        "its notes given to another account",
        before="both accounts' notes",
        after="both accounts' notes",
    ),
    "export": Action("all that is kept of it handed out"),
    "delete": Action("deleted with all that is its own", before="id", after="rows deleted"),
    "rename": Action("renamed", before="username", after="username"),
    "player token": Action("a player token taken for it"),
    "friend request for": Action("a friend request sent in its name", after="to"),
    "party invite for": Action("an invite into its party sent in its name", after="to"),
    "guild invite for": Action("an invite into its guild sent in its name", after="to"),
    "create account": Action("made from the command line", after="id, role"),
    "roll back": Action(
        "a character's save made the newest again", before="version", after=_ROLLED_BACK
    ),
    "roll back loadout": Action("its loadouts likewise", before="version", after=_ROLLED_BACK),
    "grant": Action(
        "given an entitlement",
        before="the entitlement: name, duration, activatedDate; null where it was not in force",
        after="the entitlement, likewise",
    ),
    "revoke": Action(
        "an entitlement taken from it",
        before="the entitlement, as of a grant",
        after="the same: null",
    ),
    "seed progression": Action(
        "all its tracks written anew",
        before="tracks by id (progress, confirmed free and premium rank), objectives (how many)",
        after="tracks, mode",
    ),
    "delete progression": Action(
        "one of its tracks set back to nothing", before="tracks", after="tracks"
    ),
    "disband guild": Action("disbanded", target=TargetKind.GUILD, before="id, members"),
    "create invite": Action("an invite code made", target=TargetKind.INVITE, after=_USES),
    "put invite": Action(
        "a chosen invite code made or changed", target=TargetKind.INVITE, before=_USES, after=_USES
    ),
    "revoke invite": Action(
        "an invite code taken back",
        target=TargetKind.INVITE,
        before=f"{_USES}; null where there was none",
        after="existed",
    ),
    "registration mode": Action(
        "who may register changed", target=TargetKind.NOTHING, before="mode", after="mode"
    ),
    "announce": Action(
        "announced to everybody",
        target=TargetKind.NOTHING,
        before="text, by, since, until, restartAt",
        after="text, by, since, until, restartAt",
    ),
    "announce end": Action(
        "what was announced ended", target=TargetKind.NOTHING, before="as announce"
    ),
    "drain on": Action(
        "new hunts refused until the server is empty",
        target=TargetKind.NOTHING,
        before=f"{_DRAIN}; null where hunts began",
        after=_DRAIN,
    ),
    "drain off": Action("hunts begin again", target=TargetKind.NOTHING, before=_DRAIN),
    "test alerts": Action(
        "a message sent to one of those who are told of troubles", target=TargetKind.CHANNEL
    ),
    "add alerts": Action(
        "somebody more is told of troubles", target=TargetKind.CHANNEL, after="form"
    ),
    "backup": Action("a backup made, of the host or its database", target=TargetKind.FILE),
    "prove backup": Action("a backup restored into scratch and played on", target=TargetKind.FILE),
    "restore": Action(
        "a backup put in the place of what was there; the row is in what was restored",
        target=TargetKind.FILE,
    ),
    "upgrade database": Action("the database brought to this version", target=TargetKind.NOTHING),
    "restart": Action(
        "the running services restarted one after the other", target=TargetKind.NOTHING
    ),
    "rotate keys": Action(
        "tokens signed with another key",
        target=TargetKind.NOTHING,
        before="signing",
        after="signing",
    ),
    "retire keys": Action(
        "tokens of old keys no longer taken",
        target=TargetKind.NOTHING,
        before="further",
        after="further",
    ),
    "make certificate": Action(
        "a certificate made, or the next one prepared",
        target=TargetKind.NOTHING,
        after="fingerprint, next",
    ),
    "switch certificate": Action(
        "the prepared certificate put in its place",
        target=TargetKind.NOTHING,
        before="fingerprint",
        after="fingerprint",
    ),
    "start game server": Action(
        "the city or the dojo started", target=TargetKind.GAME_SERVER, after=_RUNS
    ),
    "stop game server": Action(
        "a game server ended", target=TargetKind.GAME_SERVER, before=_SERVER, after=_RUNS
    ),
    "restart game server": Action(
        "the city or the dojo ended and started",
        target=TargetKind.GAME_SERVER,
        before=_SERVER,
        after=_RUNS,
    ),
    "refused tries": Action(
        "so many more were refused, which are only counted; `refused` says how many",
        target=TargetKind.NOTHING,
    ),
    "sign in": Action("a session of the dashboard begun"),
    "sign out": Action("a session of the dashboard ended"),
    "dashboard key": Action(
        "a key for the dashboard alone made or ended", before="ownKey", after="ownKey"
    ),
    "second factor": Action(
        "a second factor begun or ended", before="secondFactor", after="secondFactor"
    ),
    "add game-server key": Action("a key for game servers made", target=TargetKind.NOTHING),
    "revoke game-server key": Action("a key for game servers ended", target=TargetKind.NOTHING),
    "passport trust": Action(
        "passports of another host trusted", target=TargetKind.HOST, after="name"
    ),
    "passport distrust": Action(
        "passports of another host trusted no more", target=TargetKind.HOST, before="name"
    ),
    "passport import": Action(
        "a passport imported",
        after="host (where it comes from), signer (its key); tracks, characters, items,"
        " currencies, loadouts (how many)",
    ),
}


def target_of(action: str) -> TargetKind:
    """What the target of a row is; an act of an older host that has no name here had accounts."""
    found = ACTIONS.get(action)
    return TargetKind.ACCOUNT if found is None else found.target
