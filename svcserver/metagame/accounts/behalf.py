"""The accounts of management routes that act for a player: the key's holder, or ``From``.

Spec: 2 §4 Management API (PartyInvite, Friends, GuildInvite), §7.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.refusals import Missing
from svcserver.metagame.access import acting
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.wire import BehalfWish
from svcserver.metagame.rows import Call


@frozen
class Pair:
    """The acting account and its target."""

    sender: Account
    target: Account


async def pair(call: Call, sent: BehalfWish, directory: Directory) -> Pair:
    """The two accounts of a body ``{Username, From?}``; raises the documented refusals."""
    sender = await acting.sender(call, directory, None if sent.sender is None else sent.sender.read)
    target = await directory.account_named(sent.username)
    if target is None:
        raise Missing("no such account", code="not_found")
    return Pair(sender, target)
