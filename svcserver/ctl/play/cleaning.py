"""Removes the accounts of simulated players from a host after a session."""

import time
from collections.abc import Sequence

from sqlalchemy import Connection

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import know_every_table
from svcserver.ctl.host import Host
from svcserver.ctl.moderation import recorded
from svcserver.ctl.play.player import Player
from svcserver.metagame.accounts.audit import Act, AuditEntry, Trace
from svcserver.metagame.accounts.rules import Account, end_sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.people.store import remove
from svcserver.metagame.social.guilds.store import SqlGuilds

AT_ONCE = 50  # accounts per transaction; between two transactions, players can write


def clean(host: Host, players: Sequence[Player]) -> int:
    """Delete the accounts that the players registered; return their number. Raises Failed.

    Up to ``AT_ONCE`` accounts are deleted in one transaction, which adds one row to the audit log.
    """
    names = [
        player.name for player in players if player.key
    ]  # without a key the name may belong to somebody else
    know_every_table()
    gone = 0
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        more = f" and {len(part) - 1} more" if len(part) > 1 else ""
        entry = AuditEntry(actor(), "delete", part[0] + more, "svcctl play is over")
        gone += recorded(host, entry, _erasing(part))
    return gone


def _erasing(names: Sequence[str]) -> Act[int]:
    def act(tx: Connection, trace: Trace) -> int:
        accounts = SqlAccounts(tx)
        owned = [account for account in map(accounts.named, names) if account is not None]
        for account in owned:
            _disband(tx, account)
        ended = [end_sessions(accounts, account.id, time.time()) for account in owned]
        trace.after = {"rows": sum(remove(tx, account) for account in ended)}
        return len(owned)

    return act


def _disband(tx: Connection, account: Account) -> None:
    guilds = SqlGuilds(tx)
    member = guilds.member(account.id)
    guild = None if member is None else guilds.guild(member.guild_id)
    if guild is not None and guild.leader == account.id:
        guilds.disband(guild.id)  # only players of the same session were invited
