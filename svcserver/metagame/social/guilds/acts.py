"""Operations on guilds, for game and management routes. Spec: 1 §4 Guilds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import GuildChanged, Signal
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.settings import Settings
from svcserver.metagame.social.guilds import rules
from svcserver.metagame.social.guilds.names import Words
from svcserver.metagame.social.guilds.rules import Guild, Invite, Limits, Member, Wish
from svcserver.metagame.social.guilds.store import (
    CHECKED,
    FOUNDED,
    SENT,
    Founders,
    SqlGuilds,
    Summary,
)

log = Logger()

DAY_MS = 24 * 3600 * 1000


@define
class GuildActs:
    """Each write is one transaction, followed by its signal."""

    settings: Settings
    data: AccountData
    board: Board
    wall_clock: Callable[[], float]
    changed: Signal[GuildChanged] = field(factory=Signal)
    words: Words = field(init=False)
    limits: Limits = field(init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        self.words = Words.of(settings.guild_name_denylist, reserved=settings.guild_reserved_names)
        self.limits = Limits(
            settings.guild_max_members, round(settings.guild_invite_ttl_days * DAY_MS)
        )

    async def mine(self, me: AccountId) -> tuple[Guild, Sequence[Member]] | None:
        """The account's guild with its members."""

        def work(tx: Connection) -> tuple[Guild, Sequence[Member]] | None:
            guilds = SqlGuilds(tx)
            place = guilds.member(me)
            guild = guilds.guild(place.guild_id) if place is not None else None
            return None if guild is None else (guild, guilds.members(guild.id))

        return await self.data.read(me, work)

    async def invites(self, me: AccountId) -> list[tuple[Invite, Guild]]:
        """The account's open invites with their guilds, newest first."""
        return await self.data.read(me, lambda tx: rules.invites(SqlGuilds(tx), me, self._at()))

    async def summaries(self) -> list[Summary]:
        """A summary of every guild, by name."""
        return await self.data.ledger.read(lambda tx: SqlGuilds(tx).summaries())

    async def validate(self, me: AccountId, name: str, nameplate: str | None) -> None:
        """Check name and nameplate, and remember them for ``found``."""
        good, plate = await self.data.read(
            me, lambda tx: rules.validate(SqlGuilds(tx), self.words, me, name, nameplate)
        )
        await self.board.transact(lambda transaction: Founders(transaction).note(me, good, plate))

    @shielded
    async def found(
        self, leader: AccountId, name: str, nameplate: str | None
    ) -> tuple[Guild, Sequence[Member]]:
        """Found a guild whose name ``leader`` has had checked; gives it with its members.

        Raises Forbidden for a name not checked, Conflict for one taken or a leader who is in a
        guild, TooMany for a second one within ten minutes.
        """
        validated = await self._was_validated(leader, name, nameplate)
        async with FOUNDED.place(self.board, leader) as place:
            wish = Wish(leader, name, nameplate, validated, place.free)

            def work(tx: Connection) -> tuple[Guild, Sequence[Member]]:
                guilds = SqlGuilds(tx)
                guild = rules.found(guilds, self.words, wish, self._at())
                return guild, guilds.members(guild.id)

            guild, members = await self.data.write(leader, 0, work, ACROSS)
            place.used = True
        await self.board.transact(lambda transaction: Founders(transaction).clear(leader))
        log.info("{account} founded the guild {name}", account=leader, name=guild.name)
        return guild, members

    def hear(self, account_id: AccountId) -> Deferred[None]:
        """A sign of life, which is asked for only by GUILD_CREATE_ACTIVITY_FALLBACK."""
        return self.board.transact(lambda transaction: Founders(transaction).hear(account_id))

    async def _was_validated(self, leader: AccountId, name: str, nameplate: str | None) -> bool:
        def look(transaction: BoardTransaction) -> tuple[bool, bool]:
            founders = Founders(transaction)
            return founders.checked(leader, name, nameplate), founders.seen(leader)

        checked, seen = await self.board.transact(look, near=[(CHECKED, leader)])
        if checked or not self.settings.guild_create_activity_fallback or not seen:
            return checked
        log.warn("{account} founds a guild under a name not checked before", account=leader)
        return True

    @shielded
    async def invite(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> Guild:
        """Invite an account into the caller's guild."""
        async with SENT.place(self.board, me) as place:

            def work(tx: Connection) -> Guild:
                may_send, at = place.free, self._at()
                return rules.invite(SqlGuilds(tx), self.limits, me, target, at, may_send=may_send)

            guild = await self.data.write(me, 0, attempt.once(work, Guild), ACROSS)
            place.used = not attempt.was_done
        return guild

    @shielded
    async def accept(self, me: AccountId, invite_id: str, *, attempt: Attempt = ONLY) -> None:
        """Join by an invite of one's own."""

        def work(tx: Connection) -> None:
            rules.accept(SqlGuilds(tx), self.limits, me, invite_id, self._at())

        await self.data.write(me, 0, attempt.once(work), ACROSS)

    @shielded
    async def decline(self, me: AccountId, invite_id: str, *, attempt: Attempt = ONLY) -> None:
        """Decline an invite of one's own."""

        def work(tx: Connection) -> None:
            rules.decline(SqlGuilds(tx), me, invite_id, self._at())

        await self.data.write(me, 0, attempt.once(work), ACROSS)

    @shielded
    async def remove(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> None:
        """Leave, or kick another member."""

        def work(tx: Connection) -> GuildChanged:
            gone = rules.kick(SqlGuilds(tx), me, target)
            return GuildChanged(gone.guild_id, (gone.account_id,))

        self.changed.send(await self.data.write(me, 0, attempt.once(work, GuildChanged), ACROSS))

    async def set_rank(
        self, me: AccountId, target: AccountId, rank: str, *, attempt: Attempt = ONLY
    ) -> None:
        """Change a member's rank, or hand the guild over."""
        once = attempt.once(lambda tx: rules.set_rank(SqlGuilds(tx), me, target, rank))
        await self.data.write(me, 0, once, ACROSS)

    @shielded
    async def disband(self, me: AccountId, guild_id: str, *, attempt: Attempt = ONLY) -> None:
        """Disband the caller's own guild."""

        def work(tx: Connection) -> GuildChanged:
            return _changed(guild_id, rules.disband(SqlGuilds(tx), me, guild_id))

        self.changed.send(await self.data.write(me, 0, attempt.once(work, GuildChanged), ACROSS))

    @shielded
    async def disband_named(self, audit: Audit, entry: Entry, text: str) -> tuple[Guild, int]:
        """Disband a guild by id or name for staff; returns it and its number of members."""

        def act(tx: Connection, trace: Trace) -> tuple[Guild, Sequence[Member]]:
            guild, gone = rules.disband_named(SqlGuilds(tx), text)
            trace.target, trace.before = guild.name, {"id": guild.id, "members": len(gone)}
            return guild, gone

        guild, gone = await audit.write(entry, act, ACROSS)
        self.changed.send(_changed(guild.id, gone))
        return guild, len(gone)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)


def _changed(guild_id: str, gone: Sequence[Member]) -> GuildChanged:
    return GuildChanged(guild_id, tuple(member.account_id for member in gone))
