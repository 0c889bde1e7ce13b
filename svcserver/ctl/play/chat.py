"""The chat clients of the simulated players, and the check of which players get each line."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from svcserver.ctl.output import counted
from svcserver.ctl.play.crowd import gather, some_of
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.timings import Timings
from svcserver.players.chat import ANSWER_S, ENDINGS, ChatClient, Line
from svcserver.players.websocket import connect

LATE_S = 0.2  # how much later a duplicate of a line may arrive
LOOK_S = 0.1
PAUSE_S = 1.0  # maximum wait before the game connects again
BACK_S = 30.0  # how long the game tries to connect again
CLOSED = "closed"  # the server ended the connection
LINE = "chat line, from sending to receiving"
LOGIN = "chat login"
RECONNECTION = "chat reconnection"


def client_of(reactor: Any, player: Player, on_line: Callable[[Line], None]) -> ChatClient:
    """Create the player's chat client, which raises PlayFailed on errors."""
    port = urlsplit(player.wire.base).port or 80
    return ChatClient(
        reactor,
        player.account,
        player.name,
        f"127.0.0.1:{port}",
        on_line=on_line,
        error=partial(PlayFailed, "chat"),
    )


async def log_in(client: ChatClient, player: Player) -> None:
    """Connect through the player's relay and log in to the chat."""
    await connect(client.clock, client, urlsplit(player.wire.base).port or 80)
    await client.log_in(player.token)


async def enter(client: ChatClient, room: str) -> None:
    """Join a chat room; raises PlayFailed if the server refuses."""
    if not await client.enter(room):
        raise PlayFailed("chat", f"{client.name} may not enter {room}")


@define(eq=False)
class ChatMember:
    """A player's chat connection, and the lines that the player must receive.

    ``wanted`` maps each line to the connection that the player had when the line was sent. The
    value is None if the player was not in the room then.
    """

    player: Player
    client: ChatClient
    rooms: list[str] = field(factory=list)
    here: bool = False  # connected, and in all rooms
    failure: PlayFailed | None = None
    wanted: dict[Line, ChatClient | None] = field(factory=dict)
    received: Counter[Line] = field(factory=Counter)


@define(eq=False)
class Chat:
    """The chat sessions of all players, and the lines that each player must receive.

    If the server closes a connection, the player connects again, as the game does. Lines sent
    before the new connection may be missed; ``missed`` counts the missed lines.
    """

    reactor: Any
    timings: Timings
    tag: str  # part of every line of this session, because others may chat too
    connect: Callable[[ChatClient, Player], Coroutine[Any, Any, None]] = log_in
    members: dict[str, ChatMember] = field(factory=dict)  # by account
    lines_sent: int = 0
    reconnections: int = 0
    missed: int = 0
    _spoken: dict[str, float] = field(factory=dict)  # by text
    _speakers: dict[str, tuple[ChatMember, ChatClient]] = field(factory=dict)  # by text
    _closed: bool = False

    async def log_in(self, players: Sequence[Player]) -> None:
        await gather([self._log_in(self.add(player)) for player in players], 32)

    def add(self, player: Player) -> ChatMember:
        """Create the player's chat client, which counts the lines it receives."""
        received: Counter[Line] = Counter()
        client = client_of(self.reactor, player, partial(self._hear, received))
        member = self.members[player.account] = ChatMember(player, client, received=received)
        client.on_end = partial(self._on_end, member, client)
        return member

    async def _log_in(self, member: ChatMember) -> None:
        began = self.reactor.seconds()
        try:
            await self.connect(member.client, member.player)
        except PlayFailed:
            if member.client.how_ended != CLOSED:
                raise
            await self._reconnect(member)  # the host restarts
            return
        member.here = True
        self.timings.note(LOGIN, self.reactor.seconds() - began)

    async def enter(self, players: Sequence[Player], room: str) -> None:
        """Make the players join a chat room."""
        await gather([self._enter(self.members[player.account], room) for player in players])

    async def _enter(self, member: ChatMember, room: str) -> None:
        client = await self._back(member)
        member.rooms.append(room)
        try:
            await enter(client, room)
        except PlayFailed:
            if client.how_ended != CLOSED:
                raise
            await self._back(member)

    async def send_to_players(self, speaker: Player, players: Sequence[Player], room: str) -> None:
        """Send a line that every player, including the speaker, must receive exactly once."""
        member = self.members[speaker.account]
        client = await self._back(member)
        text = self._line(f"hello from {speaker.name} <&>", member)
        listeners = [self.members[player.account] for player in players]
        self._send(
            listeners, Line(False, room, client.nick, text), partial(client.send_to_room, room)
        )

    async def whisper(self, speaker: Player, listener: Player) -> None:
        """Send a line to ``listener``; no other player may receive it."""
        member, to = self.members[speaker.account], self.members[listener.account]
        client = await self._back(member)
        text = self._line("psst <&>", member)
        line = Line(True, speaker.account, client.resource, text)
        self._send([to], line, partial(client.whisper, listener.account))

    def _send(
        self, listeners: Sequence[ChatMember], line: Line, send: Callable[[str], None]
    ) -> None:
        for listener in listeners:
            listener.wanted[line] = listener.client if listener.here else None
        try:
            send(line.text)
        except PlayFailed:
            if self._speakers[line.text][1].how_ended != CLOSED:
                raise

    async def settle(self) -> int:
        """Wait until every player has received the lines sent so far, and check what was received.

        Returns the number of deliveries.
        """
        for member in self.members.values():
            await self._back(member)
            late = self.reactor.seconds() + ANSWER_S
            while self._lacks(member):
                if self.reactor.seconds() > late:
                    why = f"{member.player.name} waited for a line that did not arrive"
                    raise PlayFailed("chat", why)
                await deferLater(self.reactor, LOOK_S)
        await deferLater(self.reactor, LATE_S)
        self.missed = sum(self._compare(member) for member in self.members.values())
        return sum(member.received.total() for member in self.members.values())

    def interruptions(self) -> str:
        """Return a phrase with the number of connections that ended; empty if none ended."""
        if not self.reconnections:
            return ""
        ended = counted(self.reconnections, "chat connection")
        return f"; {ended} ended and came back, {self.missed} deliveries were missed meanwhile"

    def close(self) -> None:
        self._closed = True
        for member in self.members.values():
            member.client.close()

    def _on_end(self, member: ChatMember, client: ChatClient) -> None:
        if self._closed or client is not member.client or not member.here:
            return
        member.here = False
        if client.how_ended == CLOSED:
            back = Deferred.fromCoroutine(self._reconnect(member))
            back.addErrback(partial(_keep_failure, member))
        else:
            member.failure = PlayFailed(
                "chat", f"{ENDINGS[client.how_ended]} while {member.player.name} was in the chat"
            )

    async def _reconnect(self, member: ChatMember) -> None:
        """Connect again and rejoin the rooms; raises PlayFailed after ``BACK_S`` seconds."""
        began = self.reactor.seconds()
        while not self._closed:
            await deferLater(self.reactor, some_of(PAUSE_S))
            hear = partial(self._hear, member.received)
            client = client_of(self.reactor, member.player, hear)
            client.resource, member.client = member.client.resource, client
            client.on_end = partial(self._on_end, member, client)
            try:
                await self.connect(client, member.player)
                for room in member.rooms:
                    await enter(client, room)
            except PlayFailed:
                client.ended()
                if self.reactor.seconds() - began > BACK_S:
                    raise
                continue
            member.here = True
            self.reconnections += 1
            self.timings.note(RECONNECTION, self.reactor.seconds() - began)
            return

    async def _back(self, member: ChatMember) -> ChatClient:
        """Wait until the player is connected; return the connection."""
        while not member.here and not self._closed:
            if member.failure is not None:
                raise member.failure
            await deferLater(self.reactor, LOOK_S)
        return member.client

    def _is_due(self, member: ChatMember, line: Line) -> bool:
        """Return whether the player should have received the line.

        The result is false if the player was disconnected when the line was sent, or later. It is
        also false if the speaker's connection ended before the speaker received the line.
        """
        if member.wanted[line] is not member.client or not member.here:
            return False
        speaker, client = self._speakers[line.text]
        return speaker.client is client or bool(speaker.received[line])

    def _lacks(self, member: ChatMember) -> bool:
        return any(
            not member.received[line] and self._is_due(member, line) for line in member.wanted
        )

    def _compare(self, member: ChatMember) -> int:
        """Compare the lines that a player received with the expected lines; count the missing ones.

        Raises PlayFailed for unexpected lines, and for missing lines unless a connection ended.
        """
        if member.client.refused:
            refused = f"refused {member.client.refused} lines of {member.player.name}"
            raise PlayFailed("chat", refused)
        too_many = sum((member.received - Counter(dict.fromkeys(member.wanted, 1))).values())
        absent = [line for line in member.wanted if not member.received[line]]
        too_few = sum(self._is_due(member, line) for line in absent)
        if too_many or too_few:
            raise PlayFailed(
                "chat",
                f"{member.player.name} received {too_many} lines too many and {too_few} too few",
            )
        return len(absent)

    def _line(self, words: str, speaker: ChatMember) -> str:
        self.lines_sent += 1
        text = f"{words} {self.tag} {self.lines_sent}"
        self._spoken[text] = self.reactor.seconds()
        self._speakers[text] = speaker, speaker.client
        return text

    def _hear(self, received: Counter[Line], line: Line) -> None:
        if self.tag in line.text:
            received[line] += 1
        began = self._spoken.get(line.text)
        if began is not None:
            self.timings.note(LINE, self.reactor.seconds() - began)


def _keep_failure(member: ChatMember, failure: Failure) -> None:
    if not isinstance(failure.value, PlayFailed):
        failure.raiseException()
    member.failure = failure.value
