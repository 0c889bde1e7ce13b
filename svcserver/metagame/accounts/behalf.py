"""Management routes that act for a player: the caller, or the account in ``From``.

Spec: 2 §4 Management API (PartyInvite, Friends, GuildInvite), §7.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from attrs import frozen

from svcserver.kernel.refusals import Forbidden, Missing, Refusal, Unauthenticated
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.tries import RefusedTries
from svcserver.metagame.accounts.wire import BehalfRequest
from svcserver.metagame.rows import Call

T = TypeVar("T")


class NotDirect(Forbidden):
    """A 403 without a body, for a staff request that came through a proxy."""


@frozen
class ActingPair:
    """The acting account and its target."""

    sender: Account
    target: Account


@frozen
class Behalf:
    """Runs management requests, and audits those that staff send for another account."""

    directory: Directory
    audit: Audit
    tries: RefusedTries

    async def act_for(
        self,
        call: Call,
        sent: BehalfRequest,
        action: str,
        act: Callable[[ActingPair], Awaitable[T]],
    ) -> tuple[ActingPair, T]:
        """Find the two accounts that a body ``{Username, From?}`` names, and run ``act(pair)``.

        Returns the pair of accounts and the result of ``act``.

        Raises Missing if an account does not exist, Forbidden if the caller may not act for the
        account in ``From``, and the errors of ``act``. If ``From`` names another account than the
        caller's, the audit log gets an entry named ``action`` with the result.
        """
        try:
            pair = await self._pair(call, sent)
        except Refusal as why:
            if sent.sender is not None or isinstance(why, Forbidden):  # only staff may set From
                name, peer = call.caller.name, call.request.peer
                reason = why.message or why.code or "through a proxy"
                await self.tries.record(name, peer, action, reason)
            raise
        if pair.sender.id == call.caller.account:
            return pair, await act(pair)
        entry = AuditEntry(call.caller.name, action, pair.sender.username, sent.reason)
        trace = Trace(after={"to": pair.target.username})
        return pair, await self.audit.around(entry, lambda _: act(pair), trace)

    async def _pair(self, call: Call, sent: BehalfRequest) -> ActingPair:
        named = None if sent.sender is None else sent.sender.parse_value
        sender = await sender_of(call, self.directory, named)
        target = await self.directory.account_named(sent.username)
        if target is None:
            raise Missing("no such account", code="not_found")
        return ActingPair(sender, target)


async def sender_of(call: Call, accounts: Directory, named: Callable[[], str] | None) -> Account:
    """Return the account for which a management route acts.

    If ``named`` is None, this is the caller's account. Otherwise, ``named()`` returns the id or
    name of another account, or raises an error for a malformed text. Only an admin may name another
    account, and only in a request that has not come through the gateway.
    """
    if named is None:
        own = await accounts.account_of_id(call.player)
        if own is None:
            raise Unauthenticated
        return own
    if not call.request.direct:
        raise NotDirect
    if not call.caller.admin:
        raise Forbidden("only an admin acts for another player", code="forbidden")
    text = named()
    account = await accounts.account_of_id(text) or await accounts.account_named(text)
    if account is None:
        raise Missing("no such account", code="not_found")
    return account
