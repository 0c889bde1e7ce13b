"""Takes away what an evening's players leave on a host: their accounts with all that is theirs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import Connection

from svcserver.ctl.as_owner import actor
from svcserver.ctl.database import know_every_table
from svcserver.ctl.host import Host
from svcserver.ctl.moderation import recorded
from svcserver.ctl.play.player import Player
from svcserver.metagame.accounts.audit import Act, Entry, Trace
from svcserver.metagame.accounts.rules import Account, end_sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.people.store import remove
from svcserver.metagame.social.guilds.store import SqlGuilds

AT_ONCE = 50  # accounts in a transaction: players of the host write between two


def clean(host: Host, players: Sequence[Player]) -> int:
    """Delete the accounts that the players registered; returns how many. Fails with one line.

    Each transaction has one row in the audit log. Nothing is kept: nobody lived here.
    """
    names = [one.name for one in players if one.key]  # else the name may be somebody else's
    know_every_table()
    gone = 0
    for begin in range(0, len(names), AT_ONCE):
        some = names[begin : begin + AT_ONCE]
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        entry = Entry(actor(), "delete", some[0] + more, "svcctl play is over")
        gone += recorded(host, entry, _erasing(some))
    return gone


def _erasing(names: Sequence[str]) -> Act[int]:
    def act(tx: Connection, trace: Trace) -> int:
        accounts = SqlAccounts(tx)
        found = [one for one in map(accounts.named, names) if one is not None]
        for one in found:
            _disband(tx, one)
        ended = [end_sessions(accounts, one.id, time.time()) for one in found]
        trace.after = {"rows": sum(remove(tx, one) for one in ended)}
        return len(found)

    return act


def _disband(tx: Connection, account: Account) -> None:
    guilds = SqlGuilds(tx)
    member = guilds.member(account.id)
    guild = None if member is None else guilds.guild(member.guild_id)
    if guild is not None and guild.leader == account.id:
        guilds.disband(guild.id)  # only players of the same evening were asked in
