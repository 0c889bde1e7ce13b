"""Commands on one account: its data, its saves, and its access to the dashboard."""

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import segno
from attrs import define, evolve, field
from sqlalchemy import Connection

from svcserver.ctl.accounts import account
from svcserver.ctl.as_owner import NobodyListens, actor, owner_of
from svcserver.ctl.database import know_every_table, transact
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.moderation import by_staff, moment, recorded, refuse
from svcserver.ctl.output import Failed, Out, confirm, fail, warn
from svcserver.kernel.disk import sync_folder
from svcserver.kernel.refusals import Conflict, Refusal
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import fingerprint, hex_token
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import AuditEntry, Trace
from svcserver.metagame.accounts.dashboard_access import SqlDashboardAccess, address_of, new_factor
from svcserver.metagame.accounts.rules import Account, new_account_key
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings.savehistory.feature import (
    History,
    SqlHistories,
    loadout_rolled_back,
    rolled_back,
    show_history,
    show_loadout,
    show_rolled_back,
)
from svcserver.metagame.owner.moderation.acts import StaffWork
from svcserver.metagame.owner.moderation.rules import person
from svcserver.metagame.owner.people.acts import PersonWork, Removed
from svcserver.metagame.owner.wire import AccountExport


@define
class NewFile:
    """A file that is written inside a transaction, so that it is on disk before the commit.

    ``is_there`` becomes true when this command has created the file. Until then, ``drop`` removes
    nothing.
    """

    path: Path
    is_there: bool = field(default=False, init=False)

    def check(self) -> None:
        """Raise Conflict if the path already exists."""
        if os.path.lexists(self.path):
            raise Conflict(f"{self.path} already exists. Choose another name.")

    def put(self, value: object) -> None:
        """Write ``value`` as JSON with mode 0600; raises Conflict on failure."""
        part = self.path.with_name(f".{self.path.name[:100]}.{hex_token(8)}")
        try:
            _write(part, value)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.is_there = True  # from here on, ``drop`` may remove the file
            os.replace(part, self.path)
            sync_folder(self.path.parent)
        except BaseException as why:
            self.drop()
            if isinstance(why, FileExistsError):
                self.check()
            if isinstance(why, OSError):
                raise Conflict(f"{self.path} cannot be written: {why.strerror}") from why
            raise
        finally:
            part.unlink(missing_ok=True)

    def drop(self) -> None:
        """Remove the file if ``put`` made it."""
        if self.is_there:
            self.is_there = False
            self.path.unlink(missing_ok=True)


def _write(part: Path, value: object) -> None:
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1)
        out.flush()
        os.fsync(out.fileno())


__all__ = ["account"]  # the group of ``ctl.accounts``, now with the commands of this file


def _new(host: Host, entry: AuditEntry, path: Path) -> NewFile:
    """Return the file to create; if the path exists, record a refusal and raise Failed."""
    file = NewFile(path)
    try:
        file.check()
    except Refusal as why:
        refuse(host, entry, why)
    return file


@host_command(account, "export", reason=True)
@click.argument("name")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export(host: Host, out: Out, name: str, file: Path, reason: str) -> None:
    """Write all data of an account to FILE.

    The file is JSON without secrets.
    """
    know_every_table()
    entry = AuditEntry(actor(), "export", name, reason)
    made, work = (
        _new(host, entry, file),
        PersonWork(Staff(entry.actor, Role.OWNER), name, time.time),
    )

    def act(tx: Connection, trace: Trace) -> AccountExport:
        made.drop()  # left by a transaction that was rolled back
        data = work.export()(tx, trace)
        made.put(data)
        return data

    try:
        data = recorded(host, entry, act)
    except BaseException:
        made.drop()  # no export without its audit row
        raise
    left = data["leftOut"]
    out.data({"username": data["account"], "file": str(file), "leftOut": left})
    out.text(f"All data of {data['account']} is in {file}{_without(left)}")


@host_command(account, "delete", reason=True)
@click.argument("name")
@click.option("--export", "file", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def delete(host: Host, out: Out, name: str, file: Path, reason: str, yes: bool) -> None:
    """Export an account to a file, then delete it.

    The data is first written to the FILE given with --export.
    """
    entry = AuditEntry(actor(), "delete", name, reason)
    copy, work = (
        _new(host, entry, file),
        PersonWork(Staff(entry.actor, Role.OWNER), name, time.time),
    )
    if not yes:
        confirm(f"Delete {name} with everything it has?")
    know_every_table()

    def act(tx: Connection, trace: Trace) -> Removed:
        copy.drop()  # left by a transaction that was rolled back
        gone = work.delete()(tx, trace)
        copy.put(gone.export)  # written before the commit, so that no data is lost
        return gone

    try:
        gone = recorded(host, entry, act)
    except BaseException:
        if copy.is_there:  # the commit may have succeeded, so this may be the only copy
            warn(
                f"svcctl does not know whether {name} was deleted. To find out, run svcctl account "
                f"list. The exported data is in {file}"
            )
        raise
    name, left = gone.account.username, gone.export["leftOut"]
    out.data({"username": name, "file": str(file), "leftOut": left})
    out.text(f"{name} is deleted; the only copy of the data is in {file}{_without(left)}")


def _without(left: Mapping[str, int]) -> str:
    """Return a note about the rows that were left out because there are too many."""
    rows = ", ".join(f"{count} of {table}" for table, count in left.items())
    return f"; the oldest rows are left out, because there are too many: {rows}" if rows else ""


def _change_access(host: Host, entry: AuditEntry, **change: Any) -> Account:
    """Change one column of an account's dashboard access; the value None clears the column."""
    names = {"key_hash": "ownKey", "factor": "secondFactor"}

    def act(tx: Connection, trace: Trace) -> Account:
        account, access = person(SqlAccounts(tx), entry.target), SqlDashboardAccess(tx)
        before = access.of_account(account.id)
        after = evolve(before, **change)
        trace.target = account.username
        trace.before, trace.after = (
            {names[column]: getattr(ways, column) is not None for column in change}
            for ways in (before, after)
        )
        access.put(after)
        return account

    return recorded(host, entry, act)


@host_command(account, "dashboard-key", reason=True)
@click.argument("name")
@click.option("--off", is_flag=True, help="Let the account's own key open the dashboard again.")
def dashboard_key(host: Host, out: Out, name: str, off: bool, reason: str) -> None:
    """Give a staff account a separate dashboard key.

    The account's own key is then only for playing. The new key is printed once.
    """
    key = None if off else new_account_key()
    key_hash = None if key is None else fingerprint(key)
    account = _change_access(
        host, AuditEntry(actor(), "dashboard key", name, reason), key_hash=key_hash
    )
    out.data({"id": account.id, "username": account.username, "key": key})
    if key is None:
        out.text(f"the account key of {account.username} opens the dashboard again")
    else:
        out.text(
            f"the dashboard key of {account.username}; the account key is now only for playing"
        )
        out.text(f"key     {key}", "Keep the key: it is the only copy.")


@host_command(account, "second-factor", reason=True)
@click.argument("name")
@click.option(
    "--off", is_flag=True, help="Remove the second factor, for example if the phone was lost."
)
def second_factor(host: Host, out: Out, name: str, off: bool, reason: str) -> None:
    """Require a code from an authenticator app.

    Each sign-in to the dashboard then needs a code.
    """
    factor = None if off else new_factor()
    account = _change_access(
        host, AuditEntry(actor(), "second factor", name, reason), factor=factor
    )
    if factor is None:
        out.data({"id": account.id, "username": account.username, "address": None})
        out.text(f"{account.username} signs in without a code again")
        return
    server = host.variables("metagame").get("SERVER_NAME") or "Game Server"
    address = address_of(factor, account.username, server)
    out.data({"id": account.id, "username": account.username, "address": address})
    out.text("Scan this with an authenticator app; it is shown only once:", address)
    if not out.as_json:
        segno.make(address, error="m").terminal(compact=True)


@host_command(account, "saves")
@click.argument("name")
def saves(host: Host, out: Out, name: str) -> None:
    """List the saves of an account, newest first."""
    _, characters = transact(host, partial(_saves, name=name))
    out.data({"Characters": characters})
    out.table(
        ["character", "of", "version", "saved (UTC)", "by"],
        [
            [character["Name"], kind, str(row["Version"]), moment(row["SavedDate"]), row["Reason"]]
            for character in characters
            for kind, rows in (
                ("save", character["CharacterVersions"]),
                ("loadouts", character["LoadoutVersions"]),
            )
            for row in rows
        ],
    )


def _saves(tx: Connection, name: str) -> tuple[Account, list[History]]:
    account, histories = person(SqlAccounts(tx), name), SqlHistories(tx)
    return account, [
        show_history(histories.read_history(head)) for head in histories.heads(account.id, None)
    ]


@host_command(account, "rollback", reason=True)
@click.argument("name")
@click.argument("version", type=click.IntRange(0))
@click.option("--character", default="", help="The character's name, if there are several.")
@click.option("--loadouts", is_flag=True, help="Roll back the loadouts instead of the save.")
@click.option(
    "--kick",
    is_flag=True,
    help="Log the player off first, so that no later save undoes the rollback.",
)
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
    """Roll a character back to an earlier save.

    Run "svcctl account saves" to list the versions.
    """
    who, histories = transact(host, partial(_saves, name=name))
    matches = [
        history
        for history in histories
        if character in ("", history["Name"], history["CharacterId"])
    ]
    if len(matches) != 1:
        names = ", ".join(history["Name"] for history in matches)
        fail(
            f"{who.username} has no character with this name"
            if not matches
            else f"name one of: {names}"
        )
    if kick:
        _kick(host, who, reason or "rolled back")
    elif (where := _where(host, who)) is not None:
        out.text(
            f"{who.username} is online ({where}): the next save replaces the restored data; "
            "see --kick"
        )
    target = matches[0]["CharacterId"]
    reply: Mapping[str, object]
    if loadouts:
        entry = AuditEntry(actor(), "roll back loadout", who.username, reason)
        after = recorded(host, entry, loadout_rolled_back(target, version, time.time))
        reply = show_loadout(target, version, after)
    else:
        entry = AuditEntry(actor(), "roll back", who.username, reason)
        done = recorded(host, entry, rolled_back(target, version, time.time))
        reply = show_rolled_back(target, version, *done)
    out.data({"username": who.username, "character": matches[0]["Name"], "kicked": kick, **reply})
    out.text(f"{matches[0]['Name']} is back at version {version}")


def _kick(host: Host, who: Account, reason: str) -> None:
    """Log the player off, through the metagame if it runs."""
    try:
        owner_of(host).post("DashboardKick", {"Account": who.id}, reason)
    except NobodyListens:
        by_staff(host, "kick", who.id, reason, StaffWork, StaffWork.kick)


def _where(host: Host, who: Account) -> str | None:
    """Return where the player currently is; None if unknown."""
    try:
        view = owner_of(host).find("DashboardPerson", Account=who.id)
    except Failed:
        return None
    return None if view is None else view["where"]
