"""Acts of staff on people: one transaction each, its audit row in it; then the news goes out."""

from __future__ import annotations

from attrs import frozen
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, OneAccount, Scope
from svcserver.db.shield import shielded
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import Act, Audit, AuditQuery, Entry
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import Kind, Sanction, SqlSanctions
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation.rules import Order
from svcserver.metagame.owner.moderation.store import Done, StaffWork, id_of

log = Logger()

MAX_LISTED = 500
LISTED = tuple[Account, Kind, Sanction]


@frozen
class ModerationActs:
    """What the dashboard's routes do to people."""

    audit: Audit
    sessions: Sessions

    async def ban(self, staff: Staff, who: str, asked: Order) -> Done:
        """Ban an account; it is out of the game within a second."""
        act = self._work(staff, who).ban(asked)
        # others who came from the same addresses are out with it
        return await self._do(
            staff, "ban", who, asked.reason, act, ACROSS if asked.addresses else None
        )

    async def unban(self, staff: Staff, who: str, reason: str) -> Done:
        return await self._do(staff, "unban", who, reason, self._work(staff, who).lift(Kind.BAN))

    async def mute(self, staff: Staff, who: str, asked: Order) -> Done:
        """Mute an account in every room and whisper."""
        return await self._do(staff, "mute", who, asked.reason, self._work(staff, who).mute(asked))

    async def unmute(self, staff: Staff, who: str, reason: str) -> Done:
        return await self._do(staff, "unmute", who, reason, self._work(staff, who).lift(Kind.MUTE))

    async def kick(self, staff: Staff, who: str, reason: str) -> Done:
        """End the sessions and chat of an account, which may sign in again."""
        return await self._do(staff, "kick", who, reason, self._work(staff, who).kick())

    async def give_role(self, staff: Staff, who: str, role: Role, reason: str) -> Done:
        """Make an account an owner, a moderator, a helper, or an ordinary player."""
        act = self._work(staff, who).give_role(role)
        # judged by how many owners there are
        return await self._do(staff, "role", who, reason, act, ACROSS)

    async def running(self) -> list[LISTED]:
        """Every ban and mute that holds, the newest first."""
        now = self.audit.now

        return await self.audit.ledger.read(
            lambda tx: [
                (account, kind, sanction)
                for account_id, kind, sanction in SqlSanctions(tx).running(now(), MAX_LISTED)
                if (account := SqlAccounts(tx).find(account_id)) is not None
            ]
        )

    async def log(self, asked: AuditQuery) -> list[dict[str, object]]:
        """Rows of the audit log, the newest first."""
        return await self.audit.read(asked)

    def _work(self, staff: Staff, who: str) -> StaffWork:
        return StaffWork(staff, who, self.audit.now)

    @shielded
    async def _do(
        self,
        staff: Staff,
        action: str,
        who: str,
        reason: str,
        act: Act[Done],
        scope: Scope | None = None,
    ) -> Done:
        if scope is None:
            scope = OneAccount(await id_of(self.audit.ledger, who))
        done = await self.audit.write(Entry(staff.name, action, who, reason), act, scope)
        for one in done.ended:
            await self.sessions.tell(one.account_id, one.not_before)
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done
