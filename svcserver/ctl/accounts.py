"""The commands ``svcctl account``, ``svcctl gameserver-key`` and ``svcctl invite``."""

import sys
import time

import click
import segno
from sqlalchemy import Connection

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import transact
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.moderation import by_staff, moment, recorded
from svcserver.ctl.output import Out, fail
from svcserver.edge import joining
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.system import epoch
from svcserver.kernel.times import iso
from svcserver.metagame.accounts import invites as invites
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import AuditEntry, Trace
from svcserver.metagame.accounts.sanctions import SanctionKind
from svcserver.metagame.accounts.store import SqlAccounts, add_game_server_key, drop_game_server_key
from svcserver.metagame.owner.moderation.acts import StaffWork
from svcserver.metagame.owner.people.acts import PersonWork
from svcserver.metagame.owner.people.rules import AccountFilter, ListedAccount, SortOrder
from svcserver.metagame.owner.people.store import SqlPeople

PIECE = 500  # accounts per query
HELD = ((SanctionKind.BAN, "banned"), (SanctionKind.MUTE, "muted"))


@click.group()
def account() -> None:
    """Manage accounts."""


@host_command(account, "create", reason=True)
@click.argument("name")
@click.option("--owner", "--admin", "admin", is_flag=True, help="Make it an owner.")
def create(host: Host, out: Out, name: str, admin: bool, reason: str) -> None:
    """Make an account and print the only copy of its key."""

    def act(tx: Connection, trace: Trace) -> rules.NewAccount:
        made = rules.register(
            SqlAccounts(tx), "OPEN", rules.username(name), None, time.time(), is_admin=admin
        )
        trace.after = {"id": made.account.id, "role": made.account.role.word}
        return made

    made = recorded(host, AuditEntry(actor(), "create account", name, reason), act)
    account = made.account
    out.data({"id": account.id, "username": account.username, "admin": admin, "key": made.key})
    out.text(f"account {account.username} ({account.id}){', an owner' if admin else ''}")
    out.text(f"key     {made.key}", "Keep the key: it is the password, and the only copy.")


@host_command(account, "promote", reason=True)
@click.argument("name")
@click.option("--role", type=click.Choice(["owner", "moderator", "helper"]), default="owner")
def promote(host: Host, out: Out, name: str, role: str, reason: str) -> None:
    """Give an account the role of helper, moderator or owner.

    Helpers can read, moderators can also ban and mute, owners can do everything.
    """
    set_role(host, out, name, Role[role.upper()], reason)


@host_command(account, "demote", reason=True)
@click.argument("name")
def demote(host: Host, out: Out, name: str, reason: str) -> None:
    """Make an account an ordinary player.

    The last owner cannot be demoted.
    """
    set_role(host, out, name, Role.PLAYER, reason)


def set_role(host: Host, out: Out, name: str, role: Role, reason: str) -> None:
    """Set an account's role, which takes effect at the account's next request."""
    done = by_staff(
        host, "role", name, reason, StaffWork, lambda work: work.give_role(role, proven=True)
    )
    account = done.account
    out.data(
        {
            "id": account.id,
            "username": account.username,
            "admin": account.is_admin,
            "role": account.role.word,
        }
    )
    words = {Role.OWNER: "an owner", Role.PLAYER: "an ordinary player"}
    out.text(f"{account.username} is now {words.get(role) or f'a {role.word}'}")


@host_command(account, "new-key", reason=True)
@click.argument("name")
def new_key(host: Host, out: Out, name: str, reason: str) -> None:
    """Replace an account's key.

    The old key stops working, and the account's sessions end within a second. The new key is
    printed once.
    """
    made = by_staff(
        host, "new key", name, reason, PersonWork, lambda work: work.new_key(proven=True)
    )
    account, key = made.account, made.key
    out.data({"id": account.id, "username": account.username, "key": key})
    out.text(
        f"account {account.username} ({account.id}); the old key and its sessions no longer work"
    )
    out.text(f"key     {key}", "Keep the key: it is the password, and the only copy.")


@host_command(account, "list")
def list_accounts(host: Host, out: Out) -> None:
    """List all accounts with role, last visit and sanctions."""
    shown, rows = [], []
    for listed in transact(host, _everyone):
        account, sanctions = listed.account, listed.sanctions
        seen_at = None if listed.seen_at is None else iso(listed.seen_at)
        shown.append(
            {
                "id": account.id,
                "username": account.username,
                "admin": account.is_admin,
                "role": account.role.word,
                "lastSeen": seen_at,
                "banned": SanctionKind.BAN in sanctions,
                "muted": SanctionKind.MUTE in sanctions,
            }
        )
        words = [word for kind, word in HELD if kind in sanctions]
        last_seen = "never" if seen_at is None else moment(seen_at)
        rows.append([account.username, account.id, account.role.word, last_seen, ", ".join(words)])
    out.data({"accounts": shown})
    out.table(["name", "id", "role", "last seen (UTC)", ""], rows)


def _everyone(tx: Connection) -> list[ListedAccount]:
    """Read all accounts page by page; return them sorted by name."""
    now, accounts = time.time(), list[ListedAccount]()
    while page := SqlPeople(tx).listed(
        SortOrder.NAME, AccountFilter.ALL, "", len(accounts), PIECE, now
    ):
        accounts += page
        if len(page) < PIECE:
            break
    return accounts


@click.group("gameserver-key")
def gameserver_key() -> None:
    """Manage the keys of game servers."""


@host_command(gameserver_key, "add", reason=True)
@click.argument("key", required=False)
def add_key(host: Host, out: Out, key: str | None, reason: str) -> None:
    """Register the key of game servers.

    KEY has 16 to 256 printable characters. Without KEY, the command makes a new key and prints it:
    put this key into deploy.env as METAGAME_API_KEY.
    """
    new = key or hex_token(64)

    def act(tx: Connection, _: Trace) -> None:
        if not (16 <= len(new) <= 256 and new.isascii() and new.isprintable()):
            raise Malformed(
                "The key must have 16 to 256 printable characters. Leave it out to make one."
            )
        add_game_server_key(tx, new)

    recorded(host, AuditEntry(actor(), "add game-server key", "", reason), act)
    out.data({"registered": True, "key": None if key else new})
    out.text("registered" if key else f"registered; METAGAME_API_KEY={new}")


@host_command(gameserver_key, "revoke", reason=True)
@click.argument("key")
def revoke_key(host: Host, out: Out, key: str, reason: str) -> None:
    """Revoke the key of game servers.

    The metagame then refuses requests with the key. KEY is a registered key, such as
    METAGAME_API_KEY in deploy.env.
    """

    def act(tx: Connection, _: Trace) -> None:
        if not drop_game_server_key(tx, key):
            raise Missing("the key is not registered")

    recorded(host, AuditEntry(actor(), "revoke game-server key", "", reason), act)
    out.data({"revoked": True})
    out.text("revoked")


@click.group()
def invite() -> None:
    """Manage invite codes."""


@host_command(invite, "create", reason=True)
@click.option(
    "--uses", type=click.IntRange(1, 1000), default=1, help="Number of accounts it can create."
)
@click.option("--qr/--no-qr", default=None, help="Print a QR code. Default: only on a terminal.")
def create_invite(host: Host, out: Out, uses: int, qr: bool | None, reason: str) -> None:
    """Make an invite code and its join string.

    Send the join string to one player, privately.
    """
    code, text = new_invite(host, uses, reason)
    letter = joining.letter(host.folder, text) if host.folder is not None and text else []
    out.data({"code": code, "uses": uses, "join": text, "letter": letter})
    out.text(f"code  {code} ({uses} {'use' if uses == 1 else 'uses'})")
    out.text(
        f"join  {text}"
        if text
        else "only this machine can reach this host, so there is no join string"
    )
    if text:
        out.text("", "Send this to your friend, privately:", "", *letter, "", text)
    drawn = on_terminal() if qr is None else qr
    if drawn and text and not out.as_json:
        segno.make(text, error="m").terminal(compact=True)


def on_terminal() -> bool:
    """Return whether the command's output goes to a terminal."""
    return sys.stdout.isatty()


def new_invite(host: Host, uses: int, reason: str = "") -> tuple[str, str | None]:
    """Create an invite code; return the code and its join string (see ``join_string``)."""
    code = rules.new_invite_code()
    entry = AuditEntry(actor(), "create invite", rules.first_group(code), reason)
    invite = rules.InviteCode(code, uses, False, made_by=actor(), made_at=int(epoch()))
    recorded(host, entry, invites.put(invite))
    return code, join_string(host, code)


def join_string(host: Host, code: str) -> str | None:
    """Return the join string of an invite; None if players on other machines cannot reach the host.

    A player gives the join string to the launcher or to the relay.
    """
    if host.folder is None:
        return None
    try:
        return joining.join_string(host.folder, code)
    except joining.NoJoinString as why:
        fail(f"the invite code {code} was created, but there is no join string: {why}")


@host_command(invite, "list")
def list_invites(host: Host, out: Out) -> None:
    """List all codes and their remaining uses."""
    invites = transact(host, lambda tx: SqlAccounts(tx).invites())
    shown = [
        {"code": invite.code, "uses": None if invite.infinite_uses else invite.uses_remaining}
        for invite in invites
    ]
    out.data({"invites": shown})
    rows = [[str(row["code"]), "any" if row["uses"] is None else str(row["uses"])] for row in shown]
    out.table(["code", "uses left"], rows)


@host_command(invite, "revoke", reason=True)
@click.argument("code")
def revoke(host: Host, out: Out, code: str, reason: str) -> None:
    """Revoke a code; accounts made with it remain."""

    def act(tx: Connection, trace: Trace) -> None:
        if not (invites.drop(code)(tx, trace) or invites.drop(code.upper())(tx, trace)):
            raise Missing("There is no such code. See svcctl invite list.")

    recorded(host, AuditEntry(actor(), "revoke invite", rules.first_group(code), reason), act)
    out.data({"revoked": code})
    out.text("revoked")
