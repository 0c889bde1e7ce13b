"""A storm of real acts on few players: parties, matchmaking, sign-ins and quotas, by a seed.

A lane is a player's client after client: it does one operation after the other, each of one or
several acts of the board. What it asks for depends on its seed and on what it was answered, so on
another board it does the same as long as it is answered the same. Every act has the time of its
number, and tells ``Done``: by those all acts of all processes have one order.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import attrs
from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, BoardTransaction, Key, Work
from svcserver.board.kinds import Kind
from svcserver.board.valkey import Overtaken
from svcserver.chat.admission import Lockout
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.signals import Signal
from svcserver.metagame.owner.passports.routes import NEW_KEYS, PASSPORT_READS
from svcserver.metagame.play.deploy_client import Busy, Failed
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.matchmaking.acts import MatchmakingActs
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.social.friends.acts import ASKED
from svcserver.metagame.social.guilds.store import Founders
from svcserver.metagame.social.parties.acts import PartyActs
from svcserver.metagame.social.parties.rules import SILENT_S
from svcserver.metagame.social.parties.store import LiveParties, mark_seen

T = TypeVar("T")
PLAYERS = [f"p{number}" for number in range(5)]
LANES = ("a1", "a2", "a3", "b1", "b2", "b3")  # by process
OPERATIONS = 60  # of a lane; about twice as many acts
# the time of a lane's acts: long enough for windows and waits to pass, and too short for anybody to
# fall silent: signs of life are compared with nothing, so they must decide nothing here
BEGIN, STEP_S, LONGEST_S = 1_790_000_000.0, 0.9, SILENT_S - 1
COOLDOWN_S = 60.0


@frozen
class Done:
    """The news of an act: it counts."""

    act: str


class Broke(Exception):
    """An act raised what is no refusal, as it does on live state that contradicts itself."""


@define
class Act:
    """One act of a lane: the ids that it drew, and its answer as ``plain`` gives it."""

    name: str
    ids: list[str] = field(factory=list)
    answer: Any = None
    overtaken: bool = False  # it does not count, as others were always faster
    broke: bool = False  # it raised what is no refusal


def plain(value: Any) -> Any:
    """An answer as values of JSON, equal wherever the answers are."""
    if isinstance(value, BaseException):
        return [type(value).__name__, str(value)]
    if attrs.has(type(value)):
        fields = {one.name: plain(getattr(value, one.name)) for one in attrs.fields(type(value))}
        return [type(value).__name__, fields]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


@define
class At:
    """A transaction at another time, which is that of the act on whatever board."""

    transaction: Any
    now: float

    def new_id(self) -> str:
        found: str = self.transaction.new_id()
        return found

    def get(self, kind: Kind[T], key: str) -> T | None:
        found: T | None = self.transaction.get(kind, key)
        return found

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        self.transaction.put(kind, key, value)

    def drop(self, kind: Kind[Any], key: str) -> None:
        self.transaction.drop(kind, key)

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        raise NotImplementedError("what is listed may change meanwhile")

    def count(self, kind: Kind[Any]) -> int:
        raise NotImplementedError("what is listed may change meanwhile")

    def publish(self, news: object) -> None:
        self.transaction.publish(news)


@define(eq=False)
class LaneBoard:
    """The board of a lane: each act is noted, tells ``Done``, and leaves nothing where refused."""

    lane: str
    board: Board
    acts: list[Act] = field(factory=list)
    shared = True

    def transact(self, work: Work[T], near: Iterable[Key] = ()) -> Deferred[T]:
        return Deferred.fromCoroutine(self._act(work, tuple(near)))

    async def _act(self, work: Work[T], near: tuple[Key, ...]) -> T:
        act = Act(f"{self.lane} {len(self.acts) + 1}")
        now = BEGIN + min(len(self.acts) * STEP_S, LONGEST_S)
        self.acts.append(act)

        def job(transaction: BoardTransaction) -> T | Exception:
            own: Any = transaction
            try:
                given: T | Exception = work(At(own, now))
            except Exception as why:
                own.written.clear()
                own.news.clear()
                given = why
            transaction.publish(Done(act.name))
            act.ids, act.answer = own._ids[:], plain(given)
            act.broke = isinstance(given, Exception) and not isinstance(given, Refusal)
            return given

        try:
            given = await self.board.transact(job, near)
        except Overtaken:
            act.overtaken = True
            raise
        if isinstance(given, Refusal):
            raise given
        if isinstance(given, Exception):
            raise Broke from given
        return given

    def listen(self, news: type[Any], listener: Callable[[Any], None]) -> None:
        self.board.listen(news, listener)

    def reads_as(self, name: str) -> None:
        self.board.reads_as(name)

    def forget_at_start(self, *keys: Key) -> None:
        self.board.forget_at_start(*keys)

    def when_missed(self, look: Callable[[], None]) -> None:
        self.board.when_missed(look)


@define
class Deploy:
    """The deploy server that a lane asks."""

    dice: random.Random

    async def launch(self, wish: LaunchRequest, match_id: str) -> Server:
        port = self.dice.randrange(8000, 8020)
        if port % 5 == 0:
            raise Busy
        if port % 7 == 0:
            raise Failed
        return Server("host", port)

    async def ports(self) -> set[int]:
        return set(self.dice.sample(range(8000, 8020), 15))


class Asking(Launching):
    """Launches that the lane itself carries out, one after the other."""

    def __init__(self, matches: LiveMatches, deploy: Any) -> None:
        nobody: Any = None
        super().__init__(matches, deploy, nobody)
        self.asked: list[tuple[str, LaunchRequest]] = []

    def wait(self, match_id: str, seconds: float) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def start(self, match_id: str, wish: LaunchRequest) -> None:
        self.asked.append((match_id, wish))

    async def carry_out(self) -> None:
        while self.asked:
            await self._launch(*self.asked.pop(0))


class Everybody:
    """Directory and blocks, in which all exist and nobody has blocked anybody."""

    async def account_of_id(self, account: str) -> str:
        return account

    async def blocked(self, account: str, others: Any) -> set[str]:
        return set()


WISHES = (
    LaunchRequest("ISLAND", "", "A"),
    LaunchRequest("ISLAND", "", "B"),
    LaunchRequest("CITY", "", ""),
    LaunchRequest("ISLAND", "/Game/M?x?Class=", ""),
)


@define(eq=False)
class Lane:
    """Does one operation after the other; ``before`` each of them it waits for that."""

    board: LaneBoard
    before: Callable[[int], Awaitable[object]]
    dice: random.Random = field(init=False)
    _online: Online = field(init=False)
    _parties: PartyActs = field(init=False)
    _play: MatchmakingActs = field(init=False)
    _launching: Asking = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dice = random.Random(self.board.lane)
        matches = LiveMatches(self.board, COOLDOWN_S)
        parties = LiveParties(self.board, (matches.left_party,), matches.of_party)
        everybody: Any = Everybody()
        self._online = Online(self.board, (mark_seen,))
        self._parties = PartyActs(parties, everybody, everybody, Signal())
        self._launching = Asking(matches, Deploy(self.dice))
        self._play = MatchmakingActs(matches, self._launching, parties, Signal(), Signal())

    async def play(self) -> None:
        """All of its operations."""
        for number in range(OPERATIONS):
            await self.before(number)
            me, other = self.dice.sample(PLAYERS, 2)
            kinds = (self._socially, self._socially, self._hunting, self._hunting, self._counted)
            try:
                await self.dice.choice(kinds)(me, other)
                await self._launching.carry_out()
            except (Refusal, Broke):
                self._launching.asked.clear()

    async def _socially(self, me: str, other: str) -> None:
        parties = self._parties
        match self.dice.randrange(10):
            case 0:
                await parties.poll(me)
            case 1 | 2:
                await parties.invite(me, other)
            case 3 | 4 | 5:
                for one in (await parties.invites(me))[:1]:
                    await parties.accept(me, one.sender)
            case 6:
                await parties.leave(me)
            case 7:
                await parties.kick(me, other)
            case 8:
                await parties.promote(me, other)
            case _:
                await parties.drop_invite(me, [other], other)

    async def _hunting(self, me: str, other: str) -> None:
        match self.dice.randrange(8):
            case 0 | 1 | 2:
                await self._play.join(me, self.dice.choice(WISHES))
            case 3 | 4:
                await self._play.poll(me)
            case 5:
                entry = await self._play.matches.act(lambda rules: rules.entry(other))
                if entry is not None:
                    await self._play.follow(me, entry.candidate_id)
            case 6:
                await self._play.cancel(me)
            case _:
                await self._play.leave(me)

    async def _counted(self, me: str, other: str) -> None:
        board = self.board
        match self.dice.randrange(5):
            case 0:
                async with ASKED.place(board, me) as place:
                    place.used = place.free and self.dice.random() < 0.7
            case 1:
                quota = self.dice.choice((NEW_KEYS, PASSPORT_READS))
                await board.transact(lambda transaction: quota.take_or_wait(transaction, me))
            case 2:
                await board.transact(lambda transaction: self._signs_in(Lockout(transaction), me))
            case 3:
                await board.transact(
                    lambda transaction: self._founds(Founders(transaction), me, other)
                )
            case _:
                await self._online.hear(me, "city_01_persistent", "city")

    def _signs_in(self, lockout: Lockout, me: str) -> tuple[bool, bool]:
        said = lockout.locked(me, "192.0.2.1"), lockout.waits(me)
        lockout.failed(me, "192.0.2.1")
        lockout.never_bound(me)
        return said

    def _founds(self, founders: Founders, me: str, other: str) -> tuple[bool, bool]:
        said = founders.checked(me, other, ""), founders.is_active(me)
        founders.note(me, other, "")
        return said
