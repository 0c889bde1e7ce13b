"""The implementation of ``chat/ports.py``, through which the chat service reads game data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jwt
from attrs import evolve, field, frozen
from cachetools import LRUCache
from sqlalchemy import Connection, bindparam, select
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.delivery import connect_shared, share_signal
from svcserver.board.kinds import Kind
from svcserver.board.waiting import at_once, log_failure
from svcserver.chat.ports import About, BadToken
from svcserver.chat.rooms import Occupant
from svcserver.chat.server import ChatServer
from svcserver.chat.service import chat_service
from svcserver.chat.settings import ChatSettings, check
from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.roles import Role
from svcserver.kernel.settings import BadSetting, load
from svcserver.kernel.signals import (
    Announced,
    Blocked,
    FriendAccepted,
    GuildChanged,
    News,
    PartyChanged,
    Renamed,
    Signal,
    Unfriended,
)
from svcserver.metagame.access.tokens import InvalidToken, Tokens
from svcserver.metagame.accounts import sanctions
from svcserver.metagame.accounts.networks import MUTED
from svcserver.metagame.accounts.sanctions import SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.announcements.rules import MOST_S
from svcserver.metagame.owner.dashboard.state import ChatFigures, ChatRoom, DashboardState
from svcserver.metagame.social.friends.store import BLOCKS, SqlFriends
from svcserver.metagame.social.guilds.store import SqlGuilds
from svcserver.metagame.social.parties.store import LiveParties

log = Logger()

MAX_KNOWN = 65_536  # accounts whose party is remembered
MAX_ROOMS = 200  # shown on the dashboard
MAX_NAMES = 60  # shown of a room

_BLOCKED_BY = select(BLOCKS.c.blocker).where(BLOCKS.c.blocked == bindparam("me"))


@frozen
class ChatGame:
    """The implementation of ``chat.ports.GameAccess``: reads the game data that chat needs."""

    tokens: Tokens
    ledger: Ledger
    parties: LiveParties
    wall_clock: Callable[[], float]
    guilds: bool  # whether guilds are on
    remembers = False

    def account_of(self, token: str) -> AccountId:
        try:
            return self.tokens.verify(token)
        except InvalidToken:
            expired = _claims(token).get("exp")
            old = isinstance(expired, int | float) and expired <= self.wall_clock()
            raise BadToken("expired" if old else "bad-token") from None

    def about(self, account: AccountId, networks: frozenset[str]) -> Deferred[About | None]:
        """Return the account's name, rooms, friends, blocks and mutes, read in one transaction."""

        def work(tx: Connection) -> About | None:
            now = self.wall_clock()
            about = _about(tx, account, self.guilds, now)
            if about is None or not networks:
                return about
            return evolve(about, muted_from=_muted(tx, account, networks, now))

        return self.ledger.read_snapshot(work)

    def party_of(self, account: AccountId) -> str | None:
        party = at_once(self.parties.party_of(account))
        return None if party is None else party.id


@frozen
class SharedChatGame(ChatGame):
    """The ``ChatGame`` for a board (the store of live state) that several processes share.

    Such a board replies only after some time, but ``party_of`` must return at once. So ``about``
    reads the account's party and stores it for ``party_of``.
    """

    remembers = True
    _known: LRUCache[AccountId, str] = field(factory=lambda: LRUCache(MAX_KNOWN), init=False)

    def about(self, account: AccountId, networks: frozenset[str]) -> Deferred[About | None]:
        return Deferred.fromCoroutine(self._read_about(account, networks))

    async def _read_about(self, account: AccountId, networks: frozenset[str]) -> About | None:
        about = await ChatGame.about(self, account, networks)
        try:
            party = await self.parties.party_of(account)
        except Unavailable:
            return about  # keep the last known party
        if party is None:
            self._known.pop(account, None)
        else:
            self._known[account] = party.id
        return about

    def party_of(self, account: AccountId) -> str | None:
        return self._known.get(account)

    def left(self, news: PartyChanged) -> None:
        """Forget the stored party of each player who has left it."""
        for account in news.left:
            if self._known.get(account) == news.party_id:
                del self._known[account]


def chat_game(
    tokens: Tokens,
    ledger: Ledger,
    parties: LiveParties,
    wall_clock: Callable[[], float],
    guilds: bool,
) -> ChatGame:
    """Return a SharedChatGame if several processes share the board, otherwise a ChatGame."""
    of = SharedChatGame if parties.board.shared else ChatGame
    return of(tokens, ledger, parties, wall_clock, guilds)


def _about(tx: Connection, account_id: AccountId, guilds: bool, now: float) -> About | None:
    account = SqlAccounts(tx).find(account_id)
    if account is None:
        return None
    member = SqlGuilds(tx).member(account_id) if guilds else None
    friends, mute = SqlFriends(tx), SqlSanctions(tx).find(account_id, sanctions.SanctionKind.MUTE)
    return About(
        account.username,
        rooms=frozenset() if member is None else frozenset({("Guild", member.guild_id)}),
        friends=frozenset(friends.friends(account_id)),
        blocks=frozenset(friends.blocks(account_id)),
        blocked_by=frozenset(tx.execute(_BLOCKED_BY, {"me": account_id}).scalars()),
        muted=mute is not None and mute.holds(now),
    )


def _muted(
    tx: Connection, account_id: AccountId, networks: frozenset[str], now: float
) -> frozenset[str]:
    """Return the muted networks among ``networks``; for staff, the result is empty."""
    muted = MUTED.among(tx, networks, now)
    account = SqlAccounts(tx).find(account_id) if muted else None
    return muted if account is not None and account.role is Role.PLAYER else frozenset()


def _claims(token: str) -> dict[str, Any]:
    """Return the unverified claims of a refused token, only for the text of a log line."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return {}
    return claims


def chat_part(
    asks: ChatGame,
    board: Board,
    news: News,
    dashboard: DashboardState,
    counters: Counters,
    environ: Mapping[str, str],
    reactor: Any,
) -> IService:
    """Return the chat service, connected to the game's signals.

    If a chat setting is invalid, the service only logs an error, and the metagame has no chat.
    """
    try:
        settings, warnings = load(ChatSettings, environ)
        check(settings)
    except BadSetting as error:
        return NotStarted(str(error))
    chat = chat_service(settings, asks, board, reactor, asks.wall_clock, counters, warnings)
    dashboard.chat = partial(figures, chat.server)
    join(chat.server, asks, board, news)
    return chat


def join(server: ChatServer, asks: ChatGame, board: Board, news: News) -> None:
    """Connect the chat server to the signals of the game."""
    if isinstance(asks, SharedChatGame):
        news.party_changed.connect(asks.left)
    news.party_changed.connect(server.on_party_changed)  # sent in every process, like the next
    news.sessions_ended.connect(server.on_sessions_ended)
    share_signal(board, news.guild_changed, GuildChanged, server.on_guild_changed)
    connect_shared(board, news.renamed, Renamed, server.on_renamed)  # ``Metagame`` shares it
    share_signal(board, news.friend_accepted, FriendAccepted, server.on_friend_accepted)
    share_signal(board, news.unfriended, Unfriended, server.on_unfriended)
    share_signal(board, news.blocked, Blocked, server.on_blocked)
    share_once(board, news.announced, server.on_announced)
    board.when_missed(server.reread_all)


LATEST = Kind("announced", tuple[int, int], lives_s=MOST_S)
ONLY = ""  # the key of the only entry


def share_once(board: Board, signal: Signal[Announced], hear: Callable[[Announced], None]) -> None:
    """Connect ``hear`` to a signal, so that each process calls ``hear`` once per announcement.

    The signal is sent in every process. The first process publishes the announcement on the board,
    which then calls ``hear`` in every process.
    """
    if not board.shared:
        signal.connect(hear)
        return
    board.listen(Announced, hear)

    def send(announcement: Announced) -> None:
        mine = (announcement.made_at, -announcement.mark)

        def work(transaction: BoardTransaction) -> None:
            if (latest := transaction.get(LATEST, ONLY)) is None or mine > latest:
                transaction.put(LATEST, ONLY, mine)
                transaction.publish(announcement)

        log_failure(board.transact(work, near=[(LATEST, ONLY)]))

    signal.connect(send)


def figures(server: ChatServer) -> ChatFigures:
    """Return how many rooms and people the chat has in all processes, and the largest rooms."""
    rooms = [(key, server.rooms.occupants(key)) for key in server.rooms.keys()]  # noqa: SIM118
    rooms.sort(key=lambda room: (-len(room[1]), room[0]))
    shown = [_room(server, key, in_rooms) for key, in_rooms in rooms[:MAX_ROOMS]]
    connections, people, others = len(server), len(server.people), server.workers
    if others is not None:
        elsewhere, people = others.crowd()
        connections += elsewhere
    return ChatFigures(connections, people, len(rooms), shown)


def _room(server: ChatServer, key: str, in_rooms: list[Occupant]) -> ChatRoom:
    names = sorted(_name(server, occupant) for occupant in in_rooms[:MAX_NAMES])
    room = in_rooms[0].room
    return ChatRoom(key.partition("@")[0], room.kind, room.id, len(in_rooms), names)


def _name(server: ChatServer, occupant: Occupant) -> str:
    """Return the current name of a chat participant.

    If the participant is connected to another worker, return the name from the time at which the
    participant joined the room.
    """
    person = server.people.get(occupant.session.account)
    return occupant.nick.partition(":")[0] if person is None else person.about.name


class NotStarted(Service):
    """A service that logs why chat did not start."""

    def __init__(self, why: str) -> None:
        self.why = why

    def startService(self) -> None:
        super().startService()
        log.error("the chat did not start: {why}", why=self.why)
