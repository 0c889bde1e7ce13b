"""Operations on guilds, for game and management routes. Spec: 1 §4 Guilds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from attrs import define, field, frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.quota import Quota
from svcserver.db.ledger import ACROSS
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId, is_account_shaped, new_id
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, TooMany
from svcserver.kernel.signals import GuildChanged, Signal
from svcserver.kernel.times import DAY_MS
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.once import ONLY, Attempt
from svcserver.metagame.settings import MetagameSettings
from svcserver.metagame.social.guilds import names, rules
from svcserver.metagame.social.guilds.names import Words
from svcserver.metagame.social.guilds.rules import Guild, GuildInvitation, GuildLimits, Member, Rank
from svcserver.metagame.social.guilds.store import CHECKED, Founders, SqlGuilds, Summary

log = Logger()
T = TypeVar("T")
FOUNDED = Quota.named("guilds_founded", 1, rules.CREATE_PAUSE_S)
SENT = Quota.named("guild_invites_sent", rules.MAX_SENT, rules.SENT_S)

# -- operations in an open transaction -------------------------------------------


def check_names(
    guilds: SqlGuilds, words: Words, name: str, nameplate: str | None
) -> tuple[str, str]:
    """Return the name and nameplate if both are allowed and free.

    Raises the error of the first check that fails.
    """
    name = names.name_of(words, name)
    if guilds.name_is_taken(name):
        raise Conflict("This guild name is taken.", code=names.SEIZED)
    plate = names.nameplate_of(words, nameplate)
    if plate and guilds.nameplate_is_taken(plate):
        raise Conflict("This nameplate is taken.", code=names.CAPTURED)
    return name, plate


def validate(
    guilds: SqlGuilds, words: Words, me: AccountId, name: str, nameplate: str | None
) -> tuple[str, str]:
    """Check whether ``me`` may create a guild with this name; no guild is created."""
    rules.check_in_no_guild(guilds.member(me))
    return check_names(guilds, words, name, nameplate)


@frozen
class NewGuild:
    """A request to create a guild, and two facts about the future leader, read from the live state.

    ``validated`` says whether this name and nameplate were recently validated for the leader.
    ``may_found`` says whether the leader has founded no other guild in the last ten minutes.
    """

    leader: AccountId
    name: str
    nameplate: str | None
    validated: bool
    may_found: bool


def found_guild(guilds: SqlGuilds, words: Words, new: NewGuild, at: int) -> Guild:
    """Create a guild, after all checks in the order of the specification."""
    leader = new.leader
    if not is_account_shaped(leader) or not guilds.exists(leader):
        raise Malformed("There is no such leader account.")
    if not new.validated:
        check_names(guilds, words, new.name, new.nameplate)
        raise Forbidden("The leader has not checked this name.")
    name, nameplate = validate(guilds, words, leader, new.name, new.nameplate)
    if not new.may_found:
        raise TooMany("You may found one guild in ten minutes.")
    guild = Guild(new_id(), name, nameplate, leader, at)
    guilds.insert_guild(guild)
    guilds.join(Member(leader, guild.id, Rank.LEADER, at))
    return guild


def remove(guilds: SqlGuilds, me: AccountId, target: AccountId) -> Member:
    """Remove ``target`` from the caller's guild; only the leader may remove another member."""
    mine = rules.require_member(guilds.member(me))
    member = rules.member_to_remove(mine, guilds.member(target))
    guilds.drop_invites_by(member.guild_id, member.account_id)
    guilds.remove(member.account_id)
    return member


def set_rank(guilds: SqlGuilds, me: AccountId, target: AccountId, word: str) -> None:
    """Change a member's rank; the rank ``leader`` makes that member the new leader."""
    mine = rules.require_member(guilds.member(me))
    theirs, rank = rules.rank_to_set(mine, guilds.member(target), word)
    if theirs.rank is rank:
        return
    guilds.set_rank(theirs, rank)
    if rank is Rank.LEADER:
        guilds.set_rank(mine, Rank.OFFICER)
        guilds.set_leader(mine.guild_id, target)
    elif rank is Rank.MEMBER:
        guilds.drop_invites_by(mine.guild_id, target)


def disband(guilds: SqlGuilds, me: AccountId, guild_id: str) -> Sequence[Member]:
    """Disband the caller's own guild; return its former members."""
    rules.check_disbands(guilds.member(me), guild_id)
    members = guilds.members(guild_id)
    guilds.disband(guild_id)
    return members


def invite(
    guilds: SqlGuilds,
    limits: GuildLimits,
    me: AccountId,
    target: AccountId,
    at: int,
    *,
    may_send: bool,
) -> Guild:
    """Invite an account into the caller's guild.

    ``may_send`` is False when the inviter's quota is used up; the quota is checked last.
    """
    mine = rules.require_member(guilds.member(me))
    rules.check_may_invite(mine, target, guilds.member(target))
    if not guilds.exists(target):
        raise Missing("There is no such account.")
    if guilds.blocked_between(me, target):
        raise Forbidden("This player cannot be invited.")
    rules.check_room(guilds.size(mine.guild_id), limits)
    previous = guilds.invite_to(mine.guild_id, target)
    rules.check_invite_limits(previous, guilds.invites_of_guild(mine.guild_id), at)
    if not may_send:
        raise TooMany("You sent too many invites this hour.")
    guilds.sweep(at)
    if previous is not None:
        guilds.drop_invite(previous.id)
    waiting = [invite for invite in guilds.invites_of_player(target) if invite.is_open(at)]
    for oldest in waiting[: max(0, len(waiting) - rules.MAX_PLAYER_INVITES + 1)]:
        guilds.drop_invite(oldest.id)
    expires_at = at + limits.invite_ms
    guilds.add_invite(GuildInvitation(new_id(), mine.guild_id, target, me, at, expires_at))
    guild = guilds.guild(mine.guild_id)
    if guild is None:
        raise Missing("You are not in a guild.", code=rules.EXCLUDED)
    return guild


def _is_visible(guilds: SqlGuilds, invitation: GuildInvitation, at: int) -> bool:
    """Return whether the invited player may see and accept the invite.

    The invite is hidden if the player or the inviter has blocked the other, or if the inviter may
    no longer invite.
    """
    return (
        invitation.is_open(at)
        and not guilds.blocked_between(invitation.inviter, invitation.account_id)
        and rules.may_invite_into(invitation.guild_id, guilds.member(invitation.inviter))
    )


def open_invites(guilds: SqlGuilds, me: AccountId, at: int) -> list[tuple[GuildInvitation, Guild]]:
    """Return the caller's open invites and their guilds, newest first."""
    return [
        (invitation, guild)
        for invitation in reversed(guilds.invites_of_player(me))
        if _is_visible(guilds, invitation, at)
        and (guild := guilds.guild(invitation.guild_id)) is not None
    ]


def _own_invite(guilds: SqlGuilds, me: AccountId, invite_id: str, at: int) -> GuildInvitation:
    invitation = guilds.invite(invite_id)
    if invitation is None or invitation.account_id != me or not _is_visible(guilds, invitation, at):
        raise Missing("There is no such invite.", code=rules.UNINVITED)
    return invitation


def accept(
    guilds: SqlGuilds, limits: GuildLimits, me: AccountId, invite_id: str, at: int
) -> Member:
    """Accept an invite: join the guild with the rank Member.

    All other open invites to the caller are deleted.
    """
    invitation = _own_invite(guilds, me, invite_id, at)
    rules.check_in_no_guild(guilds.member(me))
    rules.check_room(guilds.size(invitation.guild_id), limits)
    member = Member(me, invitation.guild_id, Rank.MEMBER, at)
    guilds.join(member)
    for waiting in guilds.invites_of_player(me):
        if waiting.declined_at is None:
            guilds.drop_invite(waiting.id)
    return member


def decline(guilds: SqlGuilds, me: AccountId, invite_id: str, at: int) -> None:
    """Decline an invite; for a day, the guild cannot invite the caller again."""
    invitation = _own_invite(guilds, me, invite_id, at)
    guilds.decline_invite(invitation.id, at, until=at + rules.DECLINE_PAUSE_MS)


# -- operations, one transaction each --------------------------------------------


@define
class GuildActs:
    """The operations on guilds; each write sends a signal after its transaction."""

    settings: MetagameSettings
    data: AccountData
    board: Board
    wall_clock: Callable[[], float]
    changed: Signal[GuildChanged] = field(factory=Signal)
    _words: tuple[object, Words] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._words = self._read_words()  # reports a bad data file at the start

    @property
    def words(self) -> Words:
        """The words that names may not contain, according to the current settings."""
        if self._words[0] != self._word_settings():
            self._words = self._read_words()
        return self._words[1]

    @property
    def limits(self) -> GuildLimits:
        """The limits according to the current settings."""
        settings = self.settings
        return GuildLimits(
            settings.guild_max_members, round(settings.guild_invite_ttl_days * DAY_MS)
        )

    def _read_words(self) -> tuple[object, Words]:
        extra, reserved = current = self._word_settings()
        return current, Words.load_words(extra, reserved=reserved)

    def _word_settings(self) -> tuple[tuple[str, ...], bool]:
        return self.settings.guild_name_denylist, self.settings.guild_reserved_names

    async def mine(self, me: AccountId) -> tuple[Guild, Sequence[Member]] | None:
        """Return the account's guild and the guild's members, or None."""

        def work(tx: Connection) -> tuple[Guild, Sequence[Member]] | None:
            guilds = SqlGuilds(tx)
            member = guilds.member(me)
            guild = guilds.guild(member.guild_id) if member is not None else None
            return None if guild is None else (guild, guilds.members(guild.id))

        return await self.data.read_for_account(me, work)

    async def invites(self, me: AccountId) -> list[tuple[GuildInvitation, Guild]]:
        return await self.data.read_for_account(
            me, lambda tx: open_invites(SqlGuilds(tx), me, self._at())
        )

    async def summaries(self) -> list[Summary]:
        return await self.data.ledger.read_snapshot(lambda tx: SqlGuilds(tx).summaries())

    async def validate(self, me: AccountId, name: str, nameplate: str | None) -> None:
        """Check that the account may create a guild with this name; then store the name.

        The method ``create_guild`` later looks for the stored name.
        """
        pair = await self.data.read_for_account(
            me, lambda tx: validate(SqlGuilds(tx), self.words, me, name, nameplate)
        )
        await self.board.transact(lambda transaction: Founders(transaction).note(me, *pair))

    @shielded
    async def create_guild(
        self, leader: AccountId, name: str, nameplate: str | None
    ) -> tuple[Guild, Sequence[Member]]:
        """Create a guild that ``leader`` leads; return the guild and its members.

        - Raises Forbidden if the name was not validated.
        - Raises Conflict if the name is taken, or if the leader is in a guild.
        - Raises TooMany for a second guild within ten minutes.
        """
        validated = await self._was_validated(leader, name, nameplate)
        async with FOUNDED.place(self.board, leader) as place:
            new = NewGuild(leader, name, nameplate, validated, place.free)

            def work(tx: Connection) -> tuple[Guild, Sequence[Member]]:
                guilds = SqlGuilds(tx)
                guild = found_guild(guilds, self.words, new, self._at())
                return guild, guilds.members(guild.id)

            guild, members = await self.data.write(leader, 0, work, ACROSS)
            place.used = True
        await self.board.transact(lambda transaction: Founders(transaction).clear(leader))
        log.info("{account} founded the guild {name}", account=leader, name=guild.name)
        return guild, members

    def mark_seen(self, account_id: AccountId) -> Deferred[None]:
        """Record that the account is active; GUILD_CREATE_ACTIVITY_FALLBACK needs this."""
        return self.board.transact(lambda transaction: Founders(transaction).mark_seen(account_id))

    async def _was_validated(self, leader: AccountId, name: str, nameplate: str | None) -> bool:
        def look(transaction: BoardTransaction) -> tuple[bool, bool]:
            founders = Founders(transaction)
            return founders.checked(leader, name, nameplate), founders.is_active(leader)

        checked, is_active = await self.board.transact(look, near=[(CHECKED, leader)])
        if checked or not self.settings.guild_create_activity_fallback or not is_active:
            return checked
        text = "{account} founds a guild whose name the game did not check first"
        log.warn(text, account=leader)
        return True

    @shielded
    async def invite(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> Guild:
        async with SENT.place(self.board, me) as place:

            def work(guilds: SqlGuilds, at: int) -> Guild:
                return invite(guilds, self.limits, me, target, at, may_send=place.free)

            guild = await self._write(me, work, attempt, Guild)
            place.used = not attempt.was_done
        return guild

    @shielded
    async def accept(self, me: AccountId, invite_id: str, *, attempt: Attempt = ONLY) -> None:
        def work(guilds: SqlGuilds, at: int) -> None:
            accept(guilds, self.limits, me, invite_id, at)

        await self._write(me, work, attempt)

    @shielded
    async def decline(self, me: AccountId, invite_id: str, *, attempt: Attempt = ONLY) -> None:
        await self._write(me, lambda guilds, at: decline(guilds, me, invite_id, at), attempt)

    @shielded
    async def remove(self, me: AccountId, target: AccountId, *, attempt: Attempt = ONLY) -> None:
        def work(guilds: SqlGuilds, _: int) -> GuildChanged:
            member = remove(guilds, me, target)
            return GuildChanged(member.guild_id, (member.account_id,))

        self.changed.send(await self._write(me, work, attempt, GuildChanged))

    async def set_rank(
        self, me: AccountId, target: AccountId, rank: str, *, attempt: Attempt = ONLY
    ) -> None:
        await self._write(me, lambda guilds, _: set_rank(guilds, me, target, rank), attempt)

    @shielded
    async def disband(self, me: AccountId, guild_id: str, *, attempt: Attempt = ONLY) -> None:
        def work(guilds: SqlGuilds, _: int) -> GuildChanged:
            return _changed(guild_id, disband(guilds, me, guild_id))

        self.changed.send(await self._write(me, work, attempt, GuildChanged))

    @shielded
    async def disband_named(self, audit: Audit, entry: AuditEntry, text: str) -> tuple[Guild, int]:
        """Disband the guild whose id or name is ``text``; return the guild and its member count."""

        def act(tx: Connection, trace: Trace) -> tuple[Guild, Sequence[Member]]:
            guilds = SqlGuilds(tx)
            guild = guilds.guild(text) or guilds.guild_named(text)
            if guild is None:
                raise Missing("there is no such guild", code="not_found")
            members = guilds.members(guild.id)
            guilds.disband(guild.id)
            trace.target, trace.before = guild.name, {"id": guild.id, "members": len(members)}
            return guild, members

        guild, members = await audit.write(entry, act, ACROSS)
        self.changed.send(_changed(guild.id, members))
        return guild, len(members)

    def _write(
        self,
        me: AccountId,
        work: Callable[[SqlGuilds, int], T],
        attempt: Attempt,
        shape: Any = None,
    ) -> Awaitable[T]:
        """Run ``work(guilds, at)`` in a transaction; ``shape`` is the type of the result."""
        once = attempt.once(lambda tx: work(SqlGuilds(tx), self._at()), shape)
        return self.data.write(me, 0, once, ACROSS)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)


def _changed(guild_id: str, left: Sequence[Member]) -> GuildChanged:
    return GuildChanged(guild_id, tuple(member.account_id for member in left))
