"""What players do to guilds, whichever route asked for it. Spec: 1 §4 Guilds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from attrs import define, field
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.quota import Quota
from svcserver.kernel.signals import GuildChanged, Signal
from svcserver.metagame.settings import Settings
from svcserver.metagame.social.guilds import rules
from svcserver.metagame.social.guilds.founding import Activity, Validated
from svcserver.metagame.social.guilds.names import Words
from svcserver.metagame.social.guilds.rules import Guild, Limits, Member, Wish
from svcserver.metagame.social.guilds.store import SqlGuilds

log = Logger()

DAY_MS = 24 * 3600 * 1000


class GuildMember(TypedDict):
    """One line of a guild's members."""

    phx_account_id: str
    rank: str


class GuildReply(TypedDict):
    """A guild, exactly six keys."""

    id: str
    name: str
    nameplate: str
    leader_account_id: str
    members: list[GuildMember]
    maximum_guild_members: int


@define
class GuildBook:
    """Each method is one act: one transaction, then the news of it."""

    settings: Settings
    ledger: Ledger
    now: Callable[[], float]
    changed: Signal[GuildChanged] = field(factory=Signal)
    validated: Validated = field(factory=Validated)
    activity: Activity = field(factory=Activity)
    words: Words = field(init=False)
    limits: Limits = field(init=False)
    _sent: Quota = field(factory=lambda: Quota(rules.MAX_SENT, rules.SENT_S), init=False)
    _founded: Quota = field(factory=lambda: Quota(1, rules.CREATE_PAUSE_S), init=False)

    def __attrs_post_init__(self) -> None:
        settings = self.settings
        self.words = Words.of(settings.guild_name_denylist, reserved=settings.guild_reserved_names)
        self.limits = Limits(
            settings.guild_max_members, round(settings.guild_invite_ttl_days * DAY_MS)
        )

    async def validate(self, me: AccountId, name: Any, nameplate: Any) -> None:
        """Check a pair and remember it for the founding."""
        good, plate = await self.ledger.read(
            lambda tx: rules.validate(SqlGuilds(tx), self.words, me, name, nameplate)
        )
        self.validated.note(me, good, plate, self.now())

    @shielded
    async def found(self, leader: Any, name: Any, nameplate: Any) -> GuildReply:
        """Found a guild for ``leader``."""
        now, key = self.now(), leader if isinstance(leader, str) else ""
        validated = self._was_validated(key, name, nameplate, now)
        with self._founded.place(key, now) as place:
            wish = Wish(leader, name, nameplate, validated, place.free)

            def work(tx: Connection) -> GuildReply:
                hall = SqlGuilds(tx)
                guild = rules.found(hall, self.words, wish, self._at())
                return self.show(hall, guild)

            reply = await self.ledger.write(work)
            place.used = True
        self.validated.clear(key)
        log.info("{account} founded the guild {name}", account=key, name=reply["name"])
        return reply

    def _was_validated(self, leader: AccountId, name: Any, nameplate: Any, now: float) -> bool:
        if self.validated.holds(leader, name, nameplate, now):
            return True
        if not self.settings.guild_create_activity_fallback:
            return False
        if self.validated.any(leader, now) or self.activity.is_active(leader, now):
            log.warn("{account} founds a guild under a name not checked before", account=leader)
            return True
        return False

    @shielded
    async def invite(self, me: AccountId, target: AccountId) -> Guild:
        """Invite an account into the caller's guild."""
        with self._sent.place(me, self.now()) as place:

            def work(tx: Connection) -> Guild:
                return rules.invite(
                    SqlGuilds(tx), self.limits, me, target, self._at(), may_send=place.free
                )

            guild = await self.ledger.write(work)
            place.used = True
        return guild

    @shielded
    async def accept(self, me: AccountId, invite_id: str) -> None:
        """Join by one's own invite."""
        await self.ledger.write(
            lambda tx: rules.accept(SqlGuilds(tx), self.limits, me, invite_id, self._at())
        )

    @shielded
    async def decline(self, me: AccountId, invite_id: str) -> None:
        """Decline one's own invite."""
        await self.ledger.write(lambda tx: rules.decline(SqlGuilds(tx), me, invite_id, self._at()))

    @shielded
    async def remove(self, me: AccountId, target: AccountId) -> None:
        """Leave or kick."""
        gone = await self.ledger.write(lambda tx: rules.kick(SqlGuilds(tx), me, target))
        self._tell(gone.guild_id, [gone])

    async def set_rank(self, me: AccountId, target: AccountId, rank: str) -> None:
        """Change a rank or hand over."""
        await self.ledger.write(lambda tx: rules.set_rank(SqlGuilds(tx), me, target, rank))

    @shielded
    async def disband(self, me: AccountId, guild_id: str) -> None:
        """End the caller's own guild."""
        gone = await self.ledger.write(lambda tx: rules.disband(SqlGuilds(tx), me, guild_id))
        self._tell(guild_id, gone)

    @shielded
    async def disband_named(self, text: str) -> tuple[Guild, int]:
        """The owner ends a guild; its size."""
        guild, gone = await self.ledger.write(lambda tx: rules.disband_named(SqlGuilds(tx), text))
        self._tell(guild.id, gone)
        return guild, len(gone)

    def _at(self) -> int:
        return milliseconds(self.now())

    def _tell(self, guild_id: str, gone: Sequence[Member]) -> None:
        self.changed.send(GuildChanged(guild_id, tuple(one.account_id for one in gone)))

    def show(self, hall: SqlGuilds, guild: Guild) -> GuildReply:
        """The guild with its members, read in the same transaction."""
        return show(guild, hall.members(guild.id), self.limits.max_members)


def show(guild: Guild, members: Sequence[Member], maximum: int) -> GuildReply:
    """The guild object."""
    return {
        "id": guild.id,
        "name": guild.name,
        "nameplate": guild.nameplate,
        "leader_account_id": guild.leader,
        "members": [{"phx_account_id": one.account_id, "rank": one.rank.value} for one in members],
        "maximum_guild_members": maximum,
    }


def milliseconds(seconds: float) -> int:
    """Times as they are stored."""
    return round(seconds * 1000)
