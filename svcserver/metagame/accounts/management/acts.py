"""Account operations for owner and launcher, one transaction each. Spec: 2 §4."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.board.quota import Quota
from svcserver.db.ledger import ACROSS, Ledger, OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Malformed, Refusal, TooMany, Unauthenticated
from svcserver.kernel.signals import Renamed, Signal
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.networks import Networks
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.rules import Account, InviteState, NewAccount
from svcserver.metagame.accounts.store import SqlAccounts

log = Logger()

PAUSE_S = 600  # seconds that a client is asked to wait after too many guesses
GUESSES = Quota.named("name_guesses", 15, 3600.0)
"""The limit of name and invite checks per network, near the gateway's limit of registrations."""

Also = Callable[[Connection, AccountId, str], None]


@frozen
class AccountActs:
    """Registers, lists and renames accounts.

    A rename calls the ``also_rename`` functions in its transaction, with the account id and the
    new name. The signal ``renamed`` is sent after the transaction.
    """

    ledger: Ledger
    tokens: Tokens
    registration: Registration
    wall_clock: Callable[[], float]
    audit: Audit
    networks: Networks
    renamed: Signal[Renamed] = field(factory=Signal)
    also_rename: Sequence[Also] = ()

    async def set_mode(self, entry: AuditEntry, mode: str) -> None:
        """Set the registration mode, until the host restarts."""
        before = await self.registration.mode()

        def act(tx: Connection, trace: Trace) -> str:
            trace.before, trace.after = {"mode": before}, {"mode": mode}
            return self.registration.keep(tx, mode)

        await self.registration.begin(await self.audit.write(entry, act, ACROSS))
        log.info("the registration mode is now {mode}", mode=mode)

    async def register(self, name: str, code: str | None, network: str = "") -> NewAccount:
        """Register an account, and return it with its key.

        Raises an error if registration is closed or a ban covers ``network``.
        """
        mode = await self._mode_for(network)

        def work(tx: Connection) -> NewAccount:
            return rules.register(SqlAccounts(tx), mode, name, code, self.wall_clock())

        created = await self.ledger.write(work, ACROSS)
        log.info("registered {username}", username=name, account=created.account.id)
        return created

    async def why_not(self, username: str, code: str | None, network: str) -> Refusal | None:
        """Return the error that a registration would raise, or None; raises TooMany."""
        try:
            await self._check_registration(rules.username(username), code, network)
        except (Malformed, Conflict, Unauthenticated) as why:
            return why
        return None

    async def invite_state(self, code: str, network: str) -> InviteState:
        """Return the state of an invite code; raises an error if registration is closed.

        A check of an unusable code counts towards the quota GUESSES. Above the quota, every check
        raises TooMany.
        """
        async with GUESSES.place(self.registration.board, network) as place:
            if not place.free:
                raise _too_many()
            if await self._mode_for(network) != "INVITECODE":
                return "valid"
            state = await self.ledger.read_snapshot(
                lambda tx: rules.invite_state(SqlAccounts(tx), code, self.wall_clock())
            )
            place.used = state != "valid"
            return state

    async def why_not_free(self, username: str) -> Refusal | None:
        """Return the error that a new account with that name would raise, or None."""
        try:
            name = rules.username(username)
            await self.ledger.read_snapshot(lambda tx: rules.check_free(SqlAccounts(tx), name))
        except (Malformed, Conflict) as why:
            return why
        return None

    async def _check_registration(self, name: str, code: str | None, network: str) -> None:
        """Raise the error that a registration would raise, if any.

        The check stores nothing and uses up no invite. If the code is wrong and the name is taken,
        the error is about the name.

        The quota GUESSES limits these checks per network, so that nobody can guess codes or names
        quickly. If codes are required, only checks with a wrong code count. If not, every check
        counts. Above the quota, every check raises TooMany.
        """
        async with GUESSES.place(self.registration.board, network) as place:
            if not place.free:
                raise _too_many()
            mode = await self._mode_for(network)
            place.used = mode != "INVITECODE"
            try:
                await self.ledger.read_snapshot(
                    lambda tx: rules.check_registration(
                        SqlAccounts(tx), mode, name, code, self.wall_clock()
                    )
                )
            except Unauthenticated:
                place.used = True
                await self.ledger.read_snapshot(lambda tx: rules.check_free(SqlAccounts(tx), name))
                raise

    async def _mode_for(self, network: str) -> str:
        """Return the registration mode; raises an error if registration is closed.

        Registration is also closed to a banned network.
        """
        mode = rules.open_for(await self.registration.mode())
        if await self.networks.keeps_out(network):
            raise rules.closed()
        return mode

    async def everyone(self) -> list[Account]:
        return await self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).everyone())

    async def page(self, offset: int, count: int) -> list[tuple[Account, str | None]]:
        """Return ``count`` accounts in id order, from ``offset`` on, each with its key's hash."""
        return await self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).page(offset, count))

    @shielded
    async def rename(
        self, entry: AuditEntry, account_id: AccountId | None, current: str | None, name: str
    ) -> tuple[Account, Account]:
        """Rename an account and its characters; return the account before and after."""
        known = await self._id_of(current) if account_id is None else account_id

        def act(tx: Connection, trace: Trace) -> tuple[Account, Account]:
            before, after = rules.rename(SqlAccounts(tx), known, name)
            trace.target = before.username
            trace.before, trace.after = {"username": before.username}, {"username": after.username}
            for also in self.also_rename:
                also(tx, after.id, after.username)
            return before, after

        # the unique index ensures that no other account has the name
        before, after = await self.audit.write(entry, act, OneAccount(known or ""))
        self.renamed.send(Renamed(after.id, after.username))
        log.info("renamed {old} to {new}", old=before.username, new=name, account=after.id)
        return before, after

    async def player_token(self, entry: AuditEntry, account_id: AccountId) -> str:
        """Return a player token for any account id, even if no account has this id."""

        def act(tx: Connection, trace: Trace) -> Account | None:
            account = SqlAccounts(tx).find(account_id)
            trace.target = account_id if account is None else account.username
            return account

        account = await self.audit.write(entry, act, ACROSS)
        if account is not None:
            self.tokens.epochs.learn(account.id, account.tokens_not_before)
        log.warn("an admin created a player token for {account}", account=account_id)
        return self.tokens.sign(account_id)

    async def _id_of(self, name: str | None) -> AccountId | None:
        account = await self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).named(name or ""))
        return None if account is None else account.id


def _too_many() -> TooMany:
    return TooMany("too many checks of names and codes from this network", retry_after_s=PAUSE_S)
