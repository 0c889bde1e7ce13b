"""Implements the interfaces of ``chat/ports.py`` with the metagame's features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jwt
from attrs import frozen
from sqlalchemy import Connection, bindparam, select
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.board.waiting import at_once
from svcserver.chat.ports import About, BadToken
from svcserver.chat.rooms import Occupant
from svcserver.chat.server import ChatServer
from svcserver.chat.service import chat_service
from svcserver.chat.settings import Settings, check
from svcserver.db.ledger import Ledger
from svcserver.kernel.counters import Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.settings import BadSetting, load
from svcserver.kernel.signals import News
from svcserver.metagame.access.tokens import InvalidToken, Tokens
from svcserver.metagame.accounts.sanctions import Kind, SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.dashboard.state import (
    MAX_NAMES,
    MAX_ROOMS,
    ChatFigures,
    ChatRoom,
    DashboardState,
)
from svcserver.metagame.social.friends.store import BLOCKS, SqlFriends
from svcserver.metagame.social.guilds.store import SqlGuilds
from svcserver.metagame.social.parties.store import LiveParties

log = Logger()

_BLOCKED_BY = select(BLOCKS.c.blocker).where(BLOCKS.c.blocked == bindparam("me"))


@frozen
class ChatGame:
    """A ``chat.ports.Game``."""

    tokens: Tokens
    ledger: Ledger
    parties: LiveParties
    now: Callable[[], float]
    guilds: bool  # whether there are any

    def account_of(self, token: str) -> AccountId:
        try:
            return self.tokens.verify(token)
        except InvalidToken:
            expired = _claims(token).get("exp")
            old = isinstance(expired, int | float) and expired <= self.now()
            raise BadToken("expired" if old else "bad-token") from None

    def about(self, account: AccountId) -> Deferred[About | None]:
        """The account's name, guild, friends, blocks and mute, in one transaction."""
        return self.ledger.read(lambda tx: _about(tx, account, self.guilds, self.now()))

    def party_of(self, account: AccountId) -> str | None:
        party = at_once(self.parties.of(account))
        return None if party is None else party.id


def _about(tx: Connection, account_id: AccountId, guilds: bool, now: float) -> About | None:
    account = SqlAccounts(tx).find(account_id)
    if account is None:
        return None
    member = SqlGuilds(tx).member(account_id) if guilds else None
    friends, mute = SqlFriends(tx), SqlSanctions(tx).find(account_id, Kind.MUTE)
    return About(
        account.username,
        None if member is None else member.guild_id,
        frozenset(friends.friends(account_id)),
        frozenset(friends.blocks(account_id)),
        frozenset(tx.execute(_BLOCKED_BY, {"me": account_id}).scalars()),
        mute is not None and mute.holds(now),
    )


def _claims(token: str) -> dict[str, Any]:
    """The unverified claims of a refused token, for the wording of a log line only."""
    try:
        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return {}
    return claims


def chat_part(
    asks: ChatGame,
    board: Board,
    news: News,
    shown: DashboardState,
    counters: Counters,
    environ: Mapping[str, str],
    reactor: Any,
) -> IService:
    """The chat service, connected to the game's signals.

    With a bad setting of its own it only logs one error: the metagame runs on without chat.
    """
    try:
        settings, warnings = load(Settings, environ)
        check(settings)
    except BadSetting as why:
        return NotStarted(str(why))
    chat = chat_service(settings, asks, board, reactor, asks.now, counters)
    chat.warnings = warnings
    server = chat.server
    shown.chat = partial(figures, server)
    news.party_changed.connect(server.on_party_changed)
    news.guild_changed.connect(server.on_guild_changed)
    news.sessions_ended.connect(server.on_sessions_ended)
    news.renamed.connect(server.on_renamed)
    news.friend_accepted.connect(server.on_friend_accepted)
    news.unfriended.connect(server.on_unfriended)
    news.blocked.connect(server.on_blocked)
    news.announced.connect(server.on_announced)
    return chat


def figures(server: ChatServer) -> ChatFigures:
    """The chat for the dashboard: rooms and people, and nothing that was written."""
    rooms = [(key, server.rooms.occupants(key)) for key in server.rooms.keys()]  # noqa: SIM118
    rooms.sort(key=lambda one: (-len(one[1]), one[0]))
    shown = [_room(server, key, in_rooms) for key, in_rooms in rooms[:MAX_ROOMS]]
    return ChatFigures(len(server), len(server.people), len(rooms), shown)


def _room(server: ChatServer, key: str, in_rooms: list[Occupant]) -> ChatRoom:
    people = [server.people.get(one.session.account) for one in in_rooms[:MAX_NAMES]]
    names = sorted(one.about.name for one in people if one is not None)
    room = in_rooms[0].room
    return ChatRoom(key.partition("@")[0], room.kind, room.id, len(in_rooms), names)


class NotStarted(Service):
    """Logs why there is no chat, once logging is up."""

    def __init__(self, why: str) -> None:
        self.why = why

    def startService(self) -> None:
        super().startService()
        log.error("chat: not started: {why}", why=self.why)
