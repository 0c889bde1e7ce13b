"""The names of staff actions in the audit log, and the content of their rows.

A request that was refused before an action began is logged under its HTTP method and path.
"""

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen


class TargetKind(StrEnum):
    """The kind of target that a staff action has."""

    ACCOUNT = "account"  # identified by name, or by id if the account does not exist
    INVITE = "invite"  # the first group of the code
    GUILD = "guild"
    SETTING = "setting"  # identified by its variable
    CHANNEL = "channel"  # an alert channel, identified by name
    GAME_SERVER = "game server"  # identified by id, or by kind if it is to be started
    HOST = "host"  # another host, identified by its key
    FILE = "file"
    MACHINE = "machine"  # identified by its id in the swarm
    NOTHING = ""


@frozen
class Action:
    """A staff action: what it does, the kind of its target, and what its audit row contains."""

    says: str
    target: TargetKind = TargetKind.ACCOUNT
    before: str = ""
    after: str = ""


_SANCTION = "reason, note, by, since, until, networks"
_ROLLED_BACK = "character (its id), name, version, as (the version it was)"
_SERVER = "kind, map, port"
_RUNS = "id, kind, runs"
_USES = "uses (null: unlimited)"
_DRAIN = "then (the next step once the server is empty), until (the event to wait for)"
ACTIONS: Mapping[str, Action] = {
    "ban": Action("banned and signed out", before=_SANCTION, after=_SANCTION),
    "unban": Action("ban ended", before=_SANCTION),
    "mute": Action("muted in the chat", before=_SANCTION, after=_SANCTION),
    "unmute": Action("mute ended", before=_SANCTION),
    "kick": Action("disconnected"),
    "role": Action("role changed", before="role", after="role"),
    "sign-in link": Action("a link made that signs in to the dashboard once"),
    "new key": Action("new account key, signed out"),
    "merge notes": Action(
        "its notes moved to another account",
        before="both accounts' notes",
        after="both accounts' notes",
    ),
    "export": Action("its data exported"),
    "delete": Action("deleted with its data", before="id", after="rows deleted"),
    "rename": Action("renamed", before="username", after="username"),
    "player token": Action("a player token issued for it"),
    "friend request for": Action("a friend request sent in its name", after="to"),
    "party invite for": Action("an invite into its party sent in its name", after="to"),
    "guild invite for": Action("an invite into its guild sent in its name", after="to"),
    "create account": Action("created from the command line", after="id, role"),
    "roll back": Action(
        "an older save of a character restored", before="version", after=_ROLLED_BACK
    ),
    "roll back loadout": Action(
        "the loadouts of that save restored", before="version", after=_ROLLED_BACK
    ),
    "grant": Action(
        "an entitlement granted",
        before="the entitlement: name, duration, activatedDate; null if it was not in force",
        after="the entitlement, as before",
    ),
    "revoke": Action(
        "an entitlement revoked",
        before="the entitlement, with the members of a grant",
        after="the same: null",
    ),
    "seed progression": Action(
        "all its tracks replaced",
        before="tracks by id (progress, confirmed free and premium rank), objectives (how many)",
        after="tracks, mode",
    ),
    "delete progression": Action("one of its tracks reset", before="tracks", after="tracks"),
    "disband guild": Action("disbanded", target=TargetKind.GUILD, before="id, members"),
    "create invite": Action("an invite code created", target=TargetKind.INVITE, after=_USES),
    "create invites": Action(
        "invite codes created", target=TargetKind.INVITE, after=f"{_USES}, count, note, expires"
    ),
    "put invite": Action(
        "a chosen invite code created or changed",
        target=TargetKind.INVITE,
        before=_USES,
        after=_USES,
    ),
    "revoke invite": Action(
        "an invite code revoked",
        target=TargetKind.INVITE,
        before=f"{_USES}; null if there was none",
        after="existed",
    ),
    "registration mode": Action(
        "the registration mode changed", target=TargetKind.NOTHING, before="mode", after="mode"
    ),
    "announce": Action(
        "an announcement made",
        target=TargetKind.NOTHING,
        before="text, by, since, until, restartAt",
        after="text, by, since, until, restartAt",
    ),
    "announce end": Action(
        "the announcement ended", target=TargetKind.NOTHING, before="as announce"
    ),
    "drain on": Action(
        "new hunts paused until the server is empty",
        target=TargetKind.NOTHING,
        before=f"{_DRAIN}; null if hunts were not paused",
        after=_DRAIN,
    ),
    "drain off": Action("new hunts allowed again", target=TargetKind.NOTHING, before=_DRAIN),
    "setting": Action(
        "a setting changed at run time", target=TargetKind.SETTING, before="value", after="value"
    ),
    "test alerts": Action("a test message sent to an alert channel", target=TargetKind.CHANNEL),
    "add alerts": Action("an alert channel added", target=TargetKind.CHANNEL, after="form"),
    "change alerts": Action(
        "an alert channel changed", target=TargetKind.CHANNEL, before="form", after="form"
    ),
    "remove alerts": Action("an alert channel removed", target=TargetKind.CHANNEL, before="form"),
    "backup": Action("a backup of the host or its database made", target=TargetKind.FILE),
    "request backup": Action("a backup requested on the dashboard", target=TargetKind.NOTHING),
    "backup schedule": Action(
        "schedule or retention of backups changed",
        target=TargetKind.NOTHING,
        before="at, days, weeks, months",
        after="at, days, weeks, months",
    ),
    "download backup": Action("a backup downloaded", target=TargetKind.FILE),
    "prove backup": Action(
        "a backup tested: restored to a temporary host, and played on", target=TargetKind.FILE
    ),
    "restore": Action(
        "a backup restored; the row is in the restored database",
        target=TargetKind.FILE,
    ),
    "upgrade database": Action("the database upgraded to this version", target=TargetKind.NOTHING),
    "fleet init": Action(
        "a swarm and the image of the game server made", target=TargetKind.NOTHING, after="image"
    ),
    "fleet invite": Action(
        "machines invited to run game servers", target=TargetKind.NOTHING, after="machines (ids)"
    ),
    "fleet drain": Action(
        "new hunts on a machine refused or allowed again", target=TargetKind.MACHINE, after="drains"
    ),
    "fleet remove": Action("a machine removed", target=TargetKind.MACHINE),
    "restart": Action("the running services restarted one by one", target=TargetKind.NOTHING),
    "rotate keys": Action(
        "the signing key of tokens replaced",
        target=TargetKind.NOTHING,
        before="signing",
        after="signing",
    ),
    "retire keys": Action(
        "tokens of old keys refused",
        target=TargetKind.NOTHING,
        before="further",
        after="further",
    ),
    "make certificate": Action(
        "a certificate, or the next one, created",
        target=TargetKind.NOTHING,
        after="fingerprint, next",
    ),
    "switch certificate": Action(
        "the next certificate put into use",
        target=TargetKind.NOTHING,
        before="fingerprint",
        after="fingerprint",
    ),
    "start game server": Action(
        "the city or the dojo started", target=TargetKind.GAME_SERVER, after=_RUNS
    ),
    "stop game server": Action(
        "a game server stopped", target=TargetKind.GAME_SERVER, before=_SERVER, after=_RUNS
    ),
    "restart game server": Action(
        "the city or the dojo restarted",
        target=TargetKind.GAME_SERVER,
        before=_SERVER,
        after=_RUNS,
    ),
    "refused tries": Action(
        "further refused tries, only counted; `refused` has the number",
        target=TargetKind.NOTHING,
    ),
    "sign in": Action("signed in to the dashboard"),
    "sign out": Action("signed out of the dashboard"),
    "dashboard key": Action(
        "a separate dashboard key set or removed", before="ownKey", after="ownKey"
    ),
    "second factor": Action(
        "a second factor set or removed", before="secondFactor", after="secondFactor"
    ),
    "add game-server key": Action("a game-server key created", target=TargetKind.NOTHING),
    "revoke game-server key": Action("a game-server key revoked", target=TargetKind.NOTHING),
    "passport trust": Action(
        "passports of another host trusted", target=TargetKind.HOST, after="name"
    ),
    "passport distrust": Action(
        "passports of another host no longer trusted", target=TargetKind.HOST, before="name"
    ),
    "passport import": Action(
        "a passport imported",
        after="host (where it comes from), signer (its key); tracks, characters, items,"
        " currencies, loadouts (how many)",
    ),
}


def target_of(action: str) -> TargetKind:
    """Return the target kind of an audit row's action.

    Older versions of svcserver recorded actions that this version does not have; for these, the
    function returns ACCOUNT.
    """
    known = ACTIONS.get(action)
    return TargetKind.ACCOUNT if known is None else known.target
