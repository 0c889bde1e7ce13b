"""The exchange of an account key for a player token. Spec: 1 §4 Login, §5."""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.access.tokens import Tokens, is_usable
from svcserver.metagame.accounts.directory import Directory


@frozen
class LoginActs:
    """``by_id`` is AUTH_MODE=NONE: the key is taken as the account id itself, known or not."""

    directory: Directory
    tokens: Tokens
    counters: Counters
    by_id: bool = False

    async def log_in(self, key: str) -> tuple[str, AccountId]:
        """A token and its account; raises Malformed for a key that opens nothing."""
        asked_at = self.tokens.now()
        account_id = await self._account(key) if key else None
        if account_id is None:
            self.counters.add(Counted.FAILED_LOGINS, "account_key")
            raise Malformed("not a known account key")
        return self.tokens.sign(account_id, asked_at), account_id

    async def _account(self, key: str) -> AccountId | None:
        if self.by_id:
            return key if is_usable(key) else None
        account = await self.directory.account_of_key(key)
        if account is None:
            return None
        self.tokens.epochs.learn(account.id, account.tokens_not_before)
        return account.id
