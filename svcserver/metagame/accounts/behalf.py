"""The accounts of management routes that act for a player: the key's holder, or ``From``.

Spec: 2 §4 Management API (PartyInvite, Friends, GuildInvite), §7.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import frozen

from svcserver.kernel.refusals import Forbidden, Missing, Refusal
from svcserver.metagame.access import acting
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.tries import RefusedTries
from svcserver.metagame.accounts.wire import BehalfWish
from svcserver.metagame.rows import Call

T = TypeVar("T")


@frozen
class Pair:
    """The acting account and its target."""

    sender: Account
    target: Account


@frozen
class Behalf:
    """Finds the two accounts of a body, and records what staff does in another's name."""

    directory: Directory
    audit: Audit
    tries: RefusedTries

    async def act_for(
        self, call: Call, sent: BehalfWish, action: str, act: Callable[[Pair], Awaitable[T]]
    ) -> tuple[Pair, T]:
        """The two accounts of a body ``{Username, From?}``, and what ``act`` gives of them.

        Raises the documented refusals. Who names another account acts as staff: what comes of
        it stands in the audit log, called ``action``.
        """
        try:
            pair = await self._pair(call, sent)
        except Refusal as why:
            if sent.sender is not None or isinstance(why, Forbidden):  # staff alone names another
                name, peer = call.caller.name, call.request.peer
                said = why.message or why.code or "through a proxy"
                await self.tries.record(name, peer, action, said)
            raise
        if pair.sender.id == call.caller.account:
            return pair, await act(pair)
        entry = Entry(call.caller.name, action, pair.sender.username, sent.reason)
        trace = Trace(after={"to": pair.target.username})
        return pair, await self.audit.around(entry, lambda _: act(pair), trace)

    async def _pair(self, call: Call, sent: BehalfWish) -> Pair:
        named = None if sent.sender is None else sent.sender.read
        sender = await acting.sender(call, self.directory, named)
        target = await self.directory.account_named(sent.username)
        if target is None:
            raise Missing("no such account", code="not_found")
        return Pair(sender, target)
