"""Commands that change a running host: ``svcctl ban``, ``mute``, ``kick``, ``account rename`` ...

The running metagame executes them through the dashboard's routes. ``ban`` and ``unban`` also
work while no metagame runs.
"""

from collections.abc import Callable
from typing import Any

import click

from svcserver.ctl.as_owner import Act, Arguments, Owner, Reply, actor, owner_of
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.moderation import by_staff, moment, refuse
from svcserver.ctl.output import Out, fail
from svcserver.ctl.people import account
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.accounts.audit import AuditEntry
from svcserver.metagame.accounts.management.wire import ModeRequest, RenameRequest
from svcserver.metagame.accounts.sanctions import SanctionKind
from svcserver.metagame.achievements.progression.wire import (
    GrantRequest,
    RevokeRequest,
    SeedRequest,
)
from svcserver.metagame.owner.announcements.feature import AnnouncementRequest
from svcserver.metagame.owner.maintenance.wire import GameServerRequest
from svcserver.metagame.owner.moderation.acts import StaffWork
from svcserver.metagame.owner.moderation.wire import PersonRequest, SanctionRequest, show_done
from svcserver.metagame.owner.people.wire import MergeRequest
from svcserver.metagame.social.guilds.wire import DisbandRequest

__all__ = ["account", "announce", "ban", "gameserver", "guild", "kick", "mute", "registration"]
__all__ += ["unban", "unmute"]

MODES = ("OPEN", "INVITECODE", "NONE")
SERVERS, LAUNCHES = "DashboardGameServers", "DashboardLaunches"
CONSOLE = "DashboardConsole"


# -- sanctions -----------------------------------------------------------------


def _ban_offline(host: Host, arguments: Arguments) -> Reply:
    name, reason = arguments["account"], arguments["reason"]
    request = SanctionRequest(
        name, reason, arguments["note"], arguments["for_"], arguments["addresses"]
    )
    try:
        order = request.order()
    except Refusal as why:
        refuse(host, AuditEntry(actor(), "ban", name, reason), why)
    done = by_staff(host, "ban", name, reason, StaffWork, lambda work: work.ban(order))
    return {**show_done(done)}


def _unban_offline(host: Host, arguments: Arguments) -> Reply:
    name, reason = arguments["account"], arguments["reason"]
    done = by_staff(
        host, "unban", name, reason, StaffWork, lambda work: work.lift(SanctionKind.BAN)
    )
    return {**show_done(done)}


def _sanction(action: str, addresses: str = "", **more: Any) -> Act:
    """Return the decorator for a command that imposes or lifts a sanction, such as ``ban``.

    ``addresses`` is the help of the option --addresses; if it is empty, there is no such option.
    """
    helps = {
        "addresses": addresses,
        "note": "A note that only staff can see.",
        "for_": "Duration like 12h or 7d. Default: no end.",
    }
    return Act(
        f"Dashboard{action.capitalize()}",
        SanctionRequest if addresses else PersonRequest,
        {"account": "NAME"},
        data=lambda reply: {
            "action": action,
            "id": reply["UserId"],
            "username": reply["Username"],
            "sanction": reply["Sanction"],
        },
        helps=helps,
        **more,
    )


def _imposed(word: str, reply: Reply, arguments: Arguments) -> str:
    until = f"for {arguments['for_']}" if arguments["for_"] else "until you lift it"
    networks = ", ".join(reply["Sanction"]["networks"])
    return f"{reply['Username']} is {word} {until}{f', with {networks}' if networks else ''}"


@_sanction("ban", "Also ban the addresses it has logged in from.", offline=_ban_offline)
def ban(reply: Reply, arguments: Arguments) -> str:
    """Ban an account and disconnect it within a second."""
    return _imposed("banned", reply, arguments)


@_sanction("unban", offline=_unban_offline)
def unban(reply: Reply, _: Arguments) -> str:
    """Lift an account's ban."""
    return f"{reply['Username']} may log in again"


@_sanction("mute", "Also mute the addresses it has logged in from.")
def mute(reply: Reply, arguments: Arguments) -> str:
    """Stop an account from writing in chat."""
    return _imposed("muted", reply, arguments)


@_sanction("unmute")
def unmute(reply: Reply, _: Arguments) -> str:
    """Let a muted account chat again."""
    return f"{reply['Username']} may chat again"


@_sanction("kick")
def kick(reply: Reply, _: Arguments) -> str:
    """Log an account off; it may log in again."""
    return f"{reply['Username']} is logged off"


# -- accounts ------------------------------------------------------------------


def _person(owner: Owner, name: str) -> dict[str, Any]:
    """Return the account with this name or id; raises Failed."""
    person: dict[str, Any] | None = owner.find("DashboardPerson", Account=name[:64])
    if person is None:
        fail(f"There is no account {name[:64]}. See svcctl account list.")
    return person


def _about_account(route: str, body: type[Any], argument: str, **more: Any) -> Act:
    """Return the decorator for a command with two arguments: an account, and ``argument``."""
    named = {"user_id": "NAME", argument: argument.partition("_")[0].upper()}
    return Act(route, body, named, account, find={"user_id": _person}, **more)


@_about_account("RenameUser", RenameRequest, "new_username", fixed={"username": None})
def rename(reply: Reply, _: Arguments) -> str:
    """Rename an account; its characters take the same name."""
    return f"{reply['OldUsername']} is now {reply['Username']}"


@_about_account(
    "GrantEntitlement",
    GrantRequest,
    "entitlement",
    options={"duration": "hours"},
    types={"duration": click.FloatRange(0)},
    helps={"duration": "Duration in hours; 0 for a permanent grant."},
)
def grant(_: Reply, arguments: Arguments) -> str:
    """Give an account an entitlement."""
    return f"{arguments['user_id']['name']} now has {arguments['entitlement']}"


@_about_account("RevokeEntitlement", RevokeRequest, "entitlement")
def revoke(reply: Reply, arguments: Arguments) -> str:
    """Take an entitlement from an account."""
    name, entitlement = arguments["user_id"]["name"], arguments["entitlement"]
    if reply["Revoked"]:
        return f"{entitlement} revoked from {name}"
    return f"{name} did not have {entitlement}"


@_about_account(
    "SeedProgression", SeedRequest, "mode", types={"mode": click.Choice(["fresh", "grandfather"])}
)
def seed(reply: Reply, arguments: Arguments) -> str:
    """Overwrite all progress of an account.

    "fresh" sets every track to zero; "grandfather" finishes every track.
    """
    return (
        f"{len(reply['Tracks'])} tracks of {arguments['user_id']['name']} written ({reply['Mode']})"
    )


@Act(
    "DashboardMergeNotes",
    MergeRequest,
    {"account": "NAME", "to": "TO"},
    account,
    data=lambda reply: {name.lower(): reply[name] for name in ("Username", "To", "Moved")},
)
def merge_notes(reply: Reply, _: Arguments) -> str:
    """Move the notes (currency) of NAME to the account TO."""
    return f"{reply['Moved']} notes of {reply['Username']} now belong to {reply['To']}"


@host_command(account, "show")
@click.argument("name")
def show_account(host: Host, out: Out, name: str) -> None:
    """Show everything that staff can see about an account."""
    person = _person(owner_of(host), name)
    out.data(person)
    out.text(*(f"{key:<15}{value}" for key, value in person.items() if value is not None))


# -- everybody -----------------------------------------------------------------


def _announce(_: Owner, act: Callable[[], Reply], arguments: Arguments) -> Reply:
    if bool(arguments["text"]) is arguments["clear"]:
        fail("Give a TEXT to announce, or --clear to end the announcement.")
    return act()


@Act(
    "DashboardAnnouncement",
    AnnouncementRequest,
    {"text": "TEXT"},
    helps={
        "restart_in": "Announce a restart after this time, like 10m. The host is not restarted.",
        "for_": "How long to show it, like 2h. Default: 1h.",
    },
    more=[click.option("--clear", is_flag=True, help="End the current announcement.")],
    send=_announce,
    reads=True,
)
def announce(reply: Reply, arguments: Arguments) -> list[str]:
    """Announce TEXT in the status banner and in chat.

    Without TEXT, show the current announcement.
    """
    current = reply["announcement"]
    if current is None:
        return ["nothing is announced"]
    announced = f"announced: {current['text']}"
    if arguments["text"]:
        return [announced]
    restarts = current["restartAt"]
    end = f"restart {moment(restarts)}" if restarts else f"until {moment(current['until'])}"
    return [announced, f"by {current['by']}, {end} (UTC)"]


@Act(
    "RegistrationStatus",
    ModeRequest,
    {"registration_status": "MODE"},
    types={"registration_status": click.Choice(MODES, case_sensitive=False)},
    reads=True,
)
def registration(reply: Reply, _: Arguments) -> str:
    """Show or set who may register.

    The new mode applies until the metagame restarts. "none" closes registration.
    """
    return f"registration is {reply.get('RegistrationMode', 'not set')}"


@click.group()
def guild() -> None:
    """List and disband guilds."""


@host_command(guild, "list")
def listed(host: Host, out: Out) -> None:
    """List all guilds with leader and size."""
    guilds = owner_of(host).find("Guilds")
    if guilds is None:
        fail("Guilds are off. Set GUILDS=1 in metagame.env and restart the metagame.")
    out.data({"guilds": guilds})
    rows = [[guild["name"], guild["leader"] or "", str(guild["members"])] for guild in guilds]
    out.table(["guild", "leader", "members"], rows)


@Act("DisbandGuild", DisbandRequest, {"guild": "NAME"}, guild)
def disband(reply: Reply, _: Arguments) -> str:
    """Disband a guild and notify its members."""
    return f"{reply['Guild']} disbanded; {reply['Members']} members notified"


# -- game servers --------------------------------------------------------------


def _game_server(owner: Owner, wanted: str) -> Reply:
    """Return the game server that ``_called`` finds; raises Failed if there is not exactly one."""
    servers = _called(wanted, owner.get(SERVERS)["servers"])
    if len(servers) != 1:
        many = "several running game servers match" if servers else "no running game server matches"
        fail(f"{many} {wanted}. Give an id from svcctl gameserver list")
    return servers[0]


def _called(wanted: str, servers: list[Reply]) -> list[Reply]:
    """Return the game servers whose kind is ``wanted`` or whose id begins with ``wanted``."""
    return [
        server for server in servers if wanted == server["kind"] or server["id"].startswith(wanted)
    ]


@click.group()
def gameserver() -> None:
    """Manage the running game servers."""


@host_command(gameserver, "list")
@click.option("--ended", is_flag=True, help="List game servers that have ended, newest first.")
def list_game_servers(host: Host, out: Out, *, ended: bool) -> None:
    """List the running game servers."""
    reply = owner_of(host).get(LAUNCHES if ended else SERVERS)
    out.data(reply)
    columns = {"id": "id", "kind": "kind", "port": "port", "map": "map"}
    columns |= {"endedAt": "ended", "how": "how"} if ended else {"startedAt": "since"}
    rows = [
        [str(server[name] or "") for name in columns]
        for server in reply["launches" if ended else "servers"]
    ]
    out.table([*columns.values()], rows)


@host_command(gameserver, "console")
@click.argument("server")
def console(host: Host, out: Out, server: str) -> None:
    """Show the last lines that a game server printed.

    SERVER is a game server's id, the beginning of the id, or its kind. If no such game
    server runs, the command uses the one that ended last.
    """
    owner, ended = owner_of(host), list[Reply]()
    if not _called(server, owner.get(SERVERS)["servers"]):
        launches = _called(server, owner.get(LAUNCHES)["launches"])
        ended = [launch for launch in launches if launch["hasOutput"]]
        if launches and not ended:
            fail(
                f"no output of the ended game server {server} is stored. To list the ended game "
                "servers, run svcctl gameserver list --ended"
            )
    target = ended[0] if ended else _game_server(owner, server)
    reply = owner.get(CONSOLE, Id=target["id"])
    out.data(reply)
    out.text(*reply["lines"])


def _on_game_server(act: str) -> Act:
    return Act(
        "DashboardGameServer",
        GameServerRequest,
        {"id": "SERVER"},
        gameserver,
        fixed={"act": act, "kind": ""},
        find={"id": _game_server},
    )


@Act(
    "DashboardGameServer",
    GameServerRequest,
    {"kind": "KIND"},
    gameserver,
    fixed={"act": "start", "id": ""},
    types={"kind": click.Choice(["city", "dojo"])},
)
def start(reply: Reply, arguments: Arguments) -> str:
    """Start the city or the dojo; hunts start on demand."""
    return f"the {arguments['kind']} runs: {reply['id']}"


@_on_game_server("stop")
def stop(_: Reply, arguments: Arguments) -> str:
    """Stop a game server.

    SERVER is a game server's id, the beginning of the id, or its kind.
    """
    return f"{arguments['id']['kind']} {arguments['id']['id']} has ended"


@_on_game_server("restart")
def restart(reply: Reply, arguments: Arguments) -> str:
    """Restart the city or the dojo."""
    return f"the {arguments['id']['kind']} runs again: {reply['id']}"
