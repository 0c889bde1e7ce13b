"""Operations on slayer links, one transaction each. Spec: 1 §4 Slayer links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.social.slayerlinks import rules
from svcserver.metagame.social.slayerlinks.rules import Invite, Link, Reply
from svcserver.metagame.social.slayerlinks.store import SqlSlayerLinks

ASKED = Quota.of("slayer_link_invites_sent", rules.MAX_NEW_INVITES, rules.NEW_INVITES_S)


@frozen
class SlayerLinkActs:
    """Reads and writes, with the quota of new invites."""

    data: AccountData
    board: Board
    wall_clock: Callable[[], float]

    async def status(self, me: AccountId) -> tuple[Sequence[Invite], Sequence[Link]]:
        """The pending invites in both directions, and the running links by slot."""

        def work(tx: Connection) -> tuple[Sequence[Invite], Sequence[Link]]:
            links, at = SqlSlayerLinks(tx), self._at()
            return rules.waiting(links, me, at), links.running(me, at)

        return await self.data.read(me, work)

    async def invites(self, me: AccountId) -> Sequence[Invite]:
        """The pending invites in both directions."""
        return await self.data.read(
            me, lambda tx: rules.waiting(SqlSlayerLinks(tx), me, self._at())
        )

    async def links(self, me: AccountId) -> Sequence[Link]:
        """The running links by slot."""
        return await self.data.read(me, lambda tx: SqlSlayerLinks(tx).running(me, self._at()))

    async def available(self, me: AccountId, asked: Sequence[AccountId]) -> dict[AccountId, bool]:
        """Whether each could be invited now."""
        return await self.data.read(
            me, lambda tx: rules.available(SqlSlayerLinks(tx), me, asked, self._at())
        )

    @shielded
    async def invite(
        self, me: AccountId, other: AccountId, slot: int | None, *, attempt: Attempt = ONLY
    ) -> str:
        """Invite; returns the id of the new or already pending invite."""
        async with ASKED.place(self.board, me) as place:

            def work(tx: Connection) -> tuple[str, bool]:
                links, at = SqlSlayerLinks(tx), self._at()
                return rules.invite(links, me, other, slot, at, may_send=place.free)

            once = attempt.once(work, tuple[str, bool])
            link_id, is_new = await self.data.write(me, 0, once, ACROSS)
            place.used = is_new and not attempt.was_done
        return link_id

    async def answer(self, me: AccountId, reply: Reply, *, attempt: Attempt = ONLY) -> str:
        """Accept, reject or cancel an invite; returns its id."""

        def work(tx: Connection) -> str:
            return rules.answer(SqlSlayerLinks(tx), me, reply, self._at())

        return await self.data.write(me, 0, attempt.once(work, str), ACROSS)

    async def drop_invites(
        self, me: AccountId, other: AccountId, *, attempt: Attempt = ONLY
    ) -> None:
        """Drop all pending invites (``other`` is ``me``), else those between the two."""

        def work(tx: Connection) -> None:
            rules.drop_invites(SqlSlayerLinks(tx), me, other, self._at())

        await self.data.write(me, 0, attempt.once(work), ACROSS)

    async def end_link(
        self, me: AccountId, other: AccountId | None, slot: int | None, *, attempt: Attempt = ONLY
    ) -> None:
        """End a link for both sides, if there is one."""

        def work(tx: Connection) -> None:
            rules.end_link(SqlSlayerLinks(tx), me, other, slot, self._at())

        await self.data.write(me, 0, attempt.once(work), ACROSS)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
