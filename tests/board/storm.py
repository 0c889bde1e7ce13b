"""Many random operations by few players: parties, matchmaking, sign-ins and quotas.

A lane is a player who performs operations one after another, each in one or several transactions.
The operations depend only on the random seed and on the answers, so equal answers lead to equal
operations. The number of a transaction determines its time. Each transaction publishes ``Done``;
the order of these notifications is the order of the transactions of all processes.
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
from svcserver.metagame.play.deploy_client import Busy, DeployFailed
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.matchmaking.acts import MatchmakingActs
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.social.friends.acts import REQUESTS_SENT
from svcserver.metagame.social.guilds.store import Founders
from svcserver.metagame.social.parties.acts import PartyActs
from svcserver.metagame.social.parties.rules import SILENT_S
from svcserver.metagame.social.parties.store import LiveParties, mark_seen

T = TypeVar("T")
PLAYERS = [f"p{number}" for number in range(5)]
LANES = ("a1", "a2", "a3", "b1", "b2", "b3")  # the process is the first letter
OPERATIONS = 60  # of each lane; about twice as many transactions
# The simulated time of a lane: long enough for windows and waits to pass, but too short for any
# player to count as silent, because heartbeats are written without a comparison.
BEGIN, STEP_S, LONGEST_S = 1_790_000_000.0, 0.9, SILENT_S - 1
COOLDOWN_S = 60.0


@frozen
class Done:
    """The notification that a transaction has been committed."""

    act: str


class Broke(Exception):
    """An unexpected exception in a transaction, as inconsistent live state would cause."""


@define
class Act:
    """A record of one transaction: the ids that it generated, and its answer as JSON values."""

    name: str
    ids: list[str] = field(factory=list)
    answer: Any = None
    overtaken: bool = False  # never committed: other transactions were always faster
    broke: bool = False  # raised an exception other than a refusal


def plain(value: Any) -> Any:
    """Convert an answer to JSON values, so that equal answers compare equal."""
    if isinstance(value, BaseException):
        return [type(value).__name__, str(value)]
    if attrs.has(type(value)):
        fields = {
            field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))
        }
        return [type(value).__name__, fields]
    if isinstance(value, dict):
        return {str(key): plain(field) for key, field in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(field) for field in value]
    return value


@define
class At:
    """A transaction whose ``now`` is fixed, so that its result is the same on every board."""

    transaction: Any
    now: float

    def new_id(self) -> str:
        drawn: str = self.transaction.new_id()
        return drawn

    def get(self, kind: Kind[T], key: str) -> T | None:
        entry: T | None = self.transaction.get(kind, key)
        return entry

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
    """A lane's board, which records transactions and publishes ``Done`` for each."""

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
                result: T | Exception = work(At(own, now))
            except Exception as why:
                own.written.clear()
                own.news.clear()
                result = why
            transaction.publish(Done(act.name))
            act.ids, act.answer = own._ids[:], plain(result)
            act.broke = isinstance(result, Exception) and not isinstance(result, Refusal)
            return result

        try:
            result = await self.board.transact(job, near)
        except Overtaken:
            act.overtaken = True
            raise
        if isinstance(result, Refusal):
            raise result
        if isinstance(result, Exception):
            raise Broke from result
        return result

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
    """A lane's deploy server."""

    dice: random.Random

    async def launch(self, request: LaunchRequest, match_id: str) -> Server:
        port = self.dice.randrange(8000, 8020)
        if port % 5 == 0:
            raise Busy
        if port % 7 == 0:
            raise DeployFailed
        return Server("host", port)

    async def ports(self) -> set[int]:
        return set(self.dice.sample(range(8000, 8020), 15))


class Asking(Launching):
    """The game-server launches of a lane, which ``carry_out`` performs one after another."""

    def __init__(self, matches: LiveMatches, deploy: Any) -> None:
        nobody: Any = None
        super().__init__(matches, deploy, nobody)
        self.requests: list[tuple[str, LaunchRequest]] = []

    def wait(self, match_id: str, seconds: float) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def start(self, match_id: str, request: LaunchRequest) -> None:
        self.requests.append((match_id, request))

    async def carry_out(self) -> None:
        while self.requests:
            await self._launch(*self.requests.pop(0))


class Everybody:
    """A directory that has every account, and a block list on which nobody is blocked."""

    async def account_of_id(self, account: str) -> str:
        return account

    async def blocked(self, account: str, others: Any) -> set[str]:
        return set()


LAUNCH_REQUESTS = (
    LaunchRequest("ISLAND", "", "A"),
    LaunchRequest("ISLAND", "", "B"),
    LaunchRequest("CITY", "", ""),
    LaunchRequest("ISLAND", "/Game/M?x?Class=", ""),
)


@define(eq=False)
class Lane:
    """A player who performs operations one after another.

    The lane awaits the result of ``before`` ahead of each operation.
    """

    board: LaneBoard
    before: Callable[[int], Awaitable[object]]
    dice: random.Random = field(init=False)
    _online: Online = field(init=False)
    _parties: PartyActs = field(init=False)
    _play: MatchmakingActs = field(init=False)
    _launching: Asking = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.dice = random.Random(self.board.lane)
        matches = LiveMatches(self.board, lambda: COOLDOWN_S)
        parties = LiveParties(self.board, (matches.left_party,), matches.of_party)
        everybody: Any = Everybody()
        self._online = Online(self.board, (mark_seen,))
        self._parties = PartyActs(parties, everybody, everybody, Signal())
        self._launching = Asking(matches, Deploy(self.dice))
        self._play = MatchmakingActs(matches, self._launching, parties, Signal(), Signal())

    async def play(self) -> None:
        for number in range(OPERATIONS):
            await self.before(number)
            me, peer = self.dice.sample(PLAYERS, 2)
            kinds = (
                self._play_socially,
                self._play_socially,
                self._hunt,
                self._hunt,
                self._use_quota,
            )
            try:
                await self.dice.choice(kinds)(me, peer)
                await self._launching.carry_out()
            except (Refusal, Broke):
                self._launching.requests.clear()

    async def _play_socially(self, me: str, peer: str) -> None:
        parties = self._parties
        match self.dice.randrange(10):
            case 0:
                await parties.poll(me)
            case 1 | 2:
                await parties.invite(me, peer)
            case 3 | 4 | 5:
                for invite in (await parties.invites(me))[:1]:
                    await parties.accept(me, invite.sender)
            case 6:
                await parties.leave(me)
            case 7:
                await parties.kick(me, peer)
            case 8:
                await parties.promote(me, peer)
            case _:
                await parties.drop_invite(me, [peer], peer)

    async def _hunt(self, me: str, peer: str) -> None:
        match self.dice.randrange(8):
            case 0 | 1 | 2:
                await self._play.join(me, self.dice.choice(LAUNCH_REQUESTS))
            case 3 | 4:
                await self._play.poll(me)
            case 5:
                entry = await self._play.matches.transact(lambda rules: rules.entry(peer))
                if entry is not None:
                    await self._play.follow(me, entry.candidate_id)
            case 6:
                await self._play.cancel(me)
            case _:
                await self._play.leave(me)

    async def _use_quota(self, me: str, peer: str) -> None:
        board = self.board
        match self.dice.randrange(5):
            case 0:
                async with REQUESTS_SENT.place(board, me) as place:
                    place.used = place.free and self.dice.random() < 0.7
            case 1:
                quota = self.dice.choice((NEW_KEYS, PASSPORT_READS))
                await board.transact(lambda transaction: quota.take_or_wait(transaction, me))
            case 2:
                await board.transact(lambda transaction: self._sign_in(Lockout(transaction), me))
            case 3:
                await board.transact(
                    lambda transaction: self._found_guild(Founders(transaction), me, peer)
                )
            case _:
                await self._online.mark_seen(me, "city_01_persistent", "city")

    def _sign_in(self, lockout: Lockout, me: str) -> tuple[bool, bool]:
        before = lockout.locked(me, "192.0.2.1"), lockout.waits(me)
        lockout.failed(me, "192.0.2.1")
        lockout.never_bound(me)
        return before

    def _found_guild(self, founders: Founders, me: str, name: str) -> tuple[bool, bool]:
        before = founders.checked(me, name, ""), founders.is_active(me)
        founders.note(me, name, "")
        return before
