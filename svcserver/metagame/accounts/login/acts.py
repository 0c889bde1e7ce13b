"""The exchange of an account key for a player token. Spec: 1 §4 Login, §5."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.access.tokens import Tokens, is_usable
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.networks import Networks

TRIES = 3  # look-ups of a key, when the account's sessions are ended meanwhile


@frozen
class LoginActs:
    """``by_id`` (AUTH_MODE=NONE): the key is taken as the account id itself, known or not."""

    directory: Directory
    tokens: Tokens
    counters: Counters
    networks: Networks
    by_id: bool = False
    heard: Callable[[AccountId, str], object] | None = None  # an account, and from which network

    async def log_in(self, key: str, network: str = "") -> tuple[str, AccountId]:
        """A token and its account; raises Malformed for an unknown key, and where one is banned.

        ``network``: from where, as ``kernel.networks`` has it; empty for this machine.
        """
        if self.by_id:
            found = (self.tokens.sign(key), key) if await self._may_enter(key) else None
        else:
            found = await self._by_key(key, network) if key else None
        if found is None:
            self.counters.add(Counted.FAILED_LOGINS, "account_key")
            raise Malformed("not a known account key")
        if self.heard is not None:
            self.heard(found[1], network)
        return found

    async def _may_enter(self, account_id: AccountId) -> bool:
        return is_usable(account_id) and not await self.directory.is_banned(account_id)

    async def _by_key(self, key: str, network: str) -> tuple[str, AccountId] | None:
        for _ in range(TRIES):
            asked_at = self.tokens.wall_clock()
            account = await self.directory.account_of_key(key)
            if account is None or asked_at < account.banned_until:
                break  # a client knows one refusal of a log-in, whatever the reason
            if not await self.networks.admit(account, network):
                break
            # when a later epoch is known, this read may have seen a key replaced since: read again
            if self.tokens.epochs.learn(account.id, account.tokens_not_before):
                return self.tokens.sign(account.id, asked_at), account.id
        return None
