"""A simulated evening: players register, meet, chat, hunt, trade and save; then the checks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from itertools import count, islice
from secrets import randbelow
from typing import Any

from attrs import define, field, frozen
from twisted.internet.task import deferLater

from svcserver.ctl.host import Host
from svcserver.ctl.play import checks, datagram, together
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.chat import Chat
from svcserver.ctl.play.crowd import gather, some_of
from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.looting import GameServer
from svcserver.ctl.play.party_evening import PartyEvening, named
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import Story, and_more, counted
from svcserver.ctl.play.timings import Timings
from svcserver.ctl.play.wire import Wire
from svcserver.kernel.secrets import hex_token
from svcserver.players.requests import HUNTS, NAMES
from svcserver.relay.relaying import PortBusy, RelayService

SAVES = 3  # a player at least
MAX_PLAYERS = 1000
SHOWN = 8  # of a list, in a line for a person
AT_ONCE = 32  # players who do the same thing at the same moment
TRIES = 100  # ports that are tried for a relay
DOWNLOADS = 8  # at the same moment


@frozen
class Wishes:
    """The parameters of an evening. ``url``: of the metagame, without relay and gateway."""

    players: int = 4
    hunts: int = 1
    url: str | None = None
    relay_port: int = 61010
    invite: str | None = None
    hunt_s: float = 0.0  # the least length of a hunt; players' actions are spread over it
    whole: bool = False  # every part of an evening must be switched on
    keep: bool = False  # leave the players' accounts there
    stand_in: bool = True  # the game servers are our simulator; the real ones answer only the game


@define(eq=False)
class Evening:
    """Runs an evening; ``live`` raises PlayFailed, which names the component that failed."""

    reactor: Any
    wishes: Wishes
    story: Story
    host: Host | None = None
    chain: Chain | None = None
    players: list[Player] = field(factory=list)
    relays: list[RelayService] = field(factory=list)
    timings: Timings = field(factory=Timings)
    chat: Chat | None = None
    tag: str = field(factory=lambda: hex_token(4))
    street: int = field(factory=lambda: 1 + randbelow(250))
    _direct: Wire | None = None  # to the metagame itself, as game servers connect

    async def live(self) -> None:
        try:
            if self.chain is not None:
                if self.wishes.whole:
                    self.chain.demand_all()
                await self.chain.look(self.reactor)
                self.story.say("every component of the host answers")
            await self._play()
        except PlayFailed:
            if self.chain is not None and self.players:
                await self.chain.look(self.reactor)  # a broken link explains more than its effect
            raise
        finally:
            await self._leave()

    async def _play(self) -> None:
        self._arrive()
        await self._settle_in()
        await self._city()
        await self._meet()
        await self._speak()
        await self._hunts()
        await self._trade()
        await self._save()
        await self._check()

    def _arrive(self) -> None:
        """Make the players, each with an own source address and an own relay."""
        ports = self._relay_ports()
        for at in range(self.wishes.players):
            source = self._source(at)
            base = self.wishes.url or self._relay(ports, source)
            name = f"{NAMES[at % len(NAMES)]}{at // len(NAMES) or ''}_{self.tag}"
            wire = Wire(self.reactor, base, source if self.wishes.url else "127.0.0.1")
            wire.timings = self.timings
            player = Player(self.reactor, wire, name, self.wishes.invite)
            if self.chain is not None:
                player.city = self.chain.city_map
            self.players.append(player)
        if self.chain is not None:
            self._direct = Wire(self.reactor, self.chain.metagame)
            self._direct.timings = self.timings
        names = ", ".join(one.name for one in self.players[:SHOWN])
        more = len(self.players) - SHOWN
        self.story.say(f"{counted(len(self.players), 'player')} come: {names}{and_more(more)}")

    def _relay_ports(self) -> Iterator[int]:
        """The ports to try for relays, without those of the host's components."""
        first = self.wishes.relay_port
        own = self.chain.ports if self.chain is not None else frozenset()
        return (port for port in count(first) if port == first or port not in own)

    def _relay(self, ports: Iterator[int], source: str) -> str:
        """Start a relay on the next free port; only the first relay must get the port asked for."""
        assert self.chain is not None  # noqa: S101 - the command gives one without --url
        for port in islice(ports, TRIES):
            relay = RelayService(self.reactor, self.chain.gateway, port=port, bind=source)
            try:
                relay.startService()
            except PortBusy as why:
                busy = str(why)
                if not self.relays:
                    break
                continue
            self.relays.append(relay)
            return f"http://127.0.0.1:{relay.port}"
        raise PlayFailed("relay", f"port {busy} is taken; choose another with --relay-port")

    async def _settle_in(self) -> None:
        await self._each(Player.register)
        self.story.say("all have registered; each got an account key")
        await self._each(Player.log_in)
        await self._each(Player.load)
        self.story.say("all have logged in and loaded their character")

    async def _city(self) -> None:
        await self._each(_to_the_city)
        where = self.players[0].place
        assert where is not None  # noqa: S101 - _to_the_city sets it or raises
        if {one.place for one in self.players} != {where}:
            raise PlayFailed("deploy", "the players were sent to different cities")
        await self._each(lambda one: self._knock(one, datagram.HELLO))
        await self._listed({where.port: set()})
        answers = "which answers" if self.wishes.stand_in else "which runs"
        self.story.say(f"all were matched into the city, {answers} on UDP port {where.port}")

    async def _meet(self) -> None:
        """Make friendships, slayer links and guilds."""
        parties = self._parties()
        await gather([_befriend(members) for members in parties], AT_ONCE)
        pairs = [members for members in parties if len(members) > 1]
        made = counted(sum(len(one) - 1 for one in pairs), "friendship")
        if self._has("links"):
            await gather([together.link(one, other) for one, other, *_ in pairs], AT_ONCE)
            made += f" and {counted(len(pairs), 'slayer link')}"
        if pairs:
            self.story.say(f"they made {made}")
        if self._has("guild"):
            await self._found()

    async def _found(self) -> None:
        """Found guilds of whole parties, through the game server as the game does."""
        assert self._direct is not None and self.chain is not None  # noqa: S101 - _has says so
        direct, key = self._direct, self.chain.game_server_key
        made = await gather(
            [together.found_guild(one[0], one[1:], direct, key) for one in self._clans()], AT_ONCE
        )
        more = and_more(len(made) - 1)
        self.story.say(f"they founded the guild {made[0][0]}{more}, and everyone joined")

    async def _speak(self) -> None:
        """Everybody sends a line to the city and to the guild, and whispers to the next player."""
        if not self._has("chat"):
            return
        chat = self.chat = Chat(self.reactor, self.timings, self.tag)
        await chat.log_in(self.players)
        rooms = [(f"City-{self.tag}", self.players)]
        if self._has("guild"):
            rooms += [(f"Guild-{clan[0].relations.guild}", clan) for clan in self._clans()]
        for room, members in rooms:
            await chat.enter(members, room)
        speeches = [self._say(one, members, room) for room, members in rooms for one in members]
        await gather(speeches, len(speeches))
        for one, other in zip(self.players, [*self.players[1:], self.players[0]], strict=True):
            if one is not other:
                chat.whisper(one, other)
        heard = await chat.settle()
        self.story.say(
            f"they talked in the city and the guild, and whispered: {chat.said} lines, "
            f"heard {heard} times, each exactly once"
        )

    async def _say(self, player: Player, members: Sequence[Player], room: str) -> None:
        """Send a line at a random moment."""
        assert self.chat is not None  # noqa: S101 - _speak made it
        await deferLater(self.reactor, some_of(self.wishes.hunt_s))
        self.chat.say(player, members, room)

    async def _hunts(self) -> None:
        """Let all parties hunt at the same time."""
        if self.wishes.hunts == 0:
            return
        outings = [self._outing(members, at) for at, members in enumerate(self._parties())]
        places = await gather([one.live(self.wishes.hunts) for one in outings])
        ports = sorted({place.port for listed in places for place in listed})
        shown = ", ".join(map(str, ports[:SHOWN])) + and_more(len(ports) - SHOWN)
        self.story.say(
            f"{counted(len(outings), 'party', 'parties')} met by invites, and hunted; their game "
            f"servers {'answered' if self.wishes.stand_in else 'run'} on UDP port {shown}"
        )
        if self._direct is not None:
            deals = sum(one.earned.transactions for one in self.players)
            self.story.say(
                f"{counted(deals, 'transaction')} of loot and repairs, none counted twice"
            )
        if self.chain is not None and self.wishes.stand_in:
            kinds = await checks.gone(self.reactor, self.chain.deploy, self.players)
            left = "only the city runs" if kinds == ["city"] else f"{', '.join(kinds)} run on"
            self.story.say(f"their game servers have ended; {left}")

    def _outing(self, members: Sequence[Player], at: int) -> PartyEvening:
        server = None
        if self._direct is not None and self.chain is not None:
            server = GameServer(self._direct, self.chain.game_server_key)
        first = HUNTS[at % len(HUNTS)]
        real = self._has("progression")
        length_s = self.wishes.hunt_s
        return PartyEvening(
            members, self._knock, self._listed, self.chat, server, real, first, length_s
        )

    async def _listed(self, groups: Mapping[int, Set[str]]) -> None:
        if self.chain is not None:
            await checks.running(self.reactor, self.chain.deploy, groups)

    async def _trade(self) -> None:
        """Use the shop and download the files."""
        if self._has("store"):
            items = await gather([together.shop(one) for one in self.players], AT_ONCE)
            self.story.say(f"each took {items[0]} from the store, and has it once")
        if self._has("content") and self.chain is not None:
            loads = [together.download(one) for one in self.players]
            downloads = await gather(loads, DOWNLOADS)
            checks.same_files(self.chain.game_folder, downloads)
            files = counted(len(downloads[0]), "file")
            self.story.say(f"each downloaded the game, {files}, byte for byte")

    def _source(self, at: int) -> str:
        return source_of(at, self.street)

    def _has(self, feature: str) -> bool:
        return self.chain is not None and feature in self.chain.features

    async def _knock(self, player: Player, words: bytes) -> None:
        if not self.wishes.stand_in:
            return
        began = self.reactor.seconds()
        await datagram.answer_of(self.reactor, *self._way_to(player), words)
        self.timings.note("UDP answer of a game server", self.reactor.seconds() - began)

    def _way_to(self, player: Player) -> tuple[str, int, str]:
        """Host and port of the player's game server, and the source address."""
        place = player.place
        assert place is not None  # noqa: S101 - set by the caller
        source = self._source(self.players.index(player))
        return place.host, place.port, source if place.host.startswith("127.") else ""

    async def _save(self) -> None:
        await self._each(_save_some)
        saves = sum(one.saves for one in self.players)
        self.story.say(f"{saves} saves of 40 KB were acknowledged")

    async def _check(self) -> None:
        reactor, chain, players = self.reactor, self.chain, self.players
        if self.chat is not None:
            heard = await self.chat.settle()
            self.story.say(f"of {self.chat.said} chat lines, {heard} deliveries, not one was lost")
        base = self.wishes.url or (chain.metagame if chain is not None else "")
        has = chain.features if chain is not None else frozenset()
        again = [
            checks.read_again(reactor, base, one, self._source(MAX_PLAYERS + at), has)
            for at, one in enumerate(players)
        ]
        await gather(again, AT_ONCE)
        self.story.say("a second login reads every document byte for byte, and all that was earned")
        sources = [self._source(at) for at in range(len(players))]
        if chain is not None and await chain.let_in(reactor, sources):
            self.story.say("the allowlist helper let in every player's address")
        if self.host is not None:
            saves, deals = checks.stored(self.host, players)
            self.story.say(
                f"the database holds {len(players)} accounts, {saves} saves, {deals} transactions"
            )
            if (key := self.host.owner_key()) is not None:
                await self._each(lambda one: one.beat(one.city))
                await checks.online(reactor, base, players, key)
                self.story.say("the owner's status page lists every player and the city")

    async def _leave(self) -> None:
        for one in self.players:
            if one.hunting and self.wishes.stand_in:  # a fault broke it off: let the server end
                words = named(datagram.HELLO, one), named(datagram.GOODBYE, one)
                await datagram.tell(self.reactor, *self._way_to(one), *words)
        if self.chat is not None:
            self.chat.close()
        for wire in (self._direct, *(one.wire for one in self.players)):
            if wire is not None:
                await wire.close()
        for relay in self.relays:
            await relay.stopService()

    def _parties(self) -> list[list[Player]]:
        """Groups of up to four, of nearly equal size, so that nobody hunts alone if possible."""
        needed = -(-len(self.players) // together.PARTY)
        return [self.players[at::needed] for at in range(needed)]

    def _clans(self) -> list[list[Player]]:
        """Whole parties joined to guilds of at most ``CLAN`` members."""
        parties = self._parties()
        few = together.CLAN // together.PARTY
        groups = [parties[at : at + few] for at in range(0, len(parties), few)]
        return [[one for members in group for one in members] for group in groups]

    async def _each(self, act: Callable[[Player], Coroutine[Any, Any, None]]) -> None:
        await gather([act(one) for one in self.players], AT_ONCE)


async def _to_the_city(player: Player) -> None:
    await player.join("CITY")
    await player.wait_for_server()
    await player.beat(player.city)


async def _befriend(members: Sequence[Player]) -> None:
    """Befriend the first of a party with each of the others."""
    for one in members[1:]:
        await together.befriend(members[0], one)


async def _save_some(player: Player) -> None:
    await player.save()
    while player.saves < SAVES:
        await player.save()


def source_of(at: int, street: int = 77) -> str:
    """An address of 127.0.0.0/8 of this player's own; ``street`` differs for each evening.

    The gateway limits registrations by address, so several evenings within minutes must not
    use the same ones.
    """
    return f"127.{street}.{at // 200 + 1}.{at % 200 + 11}"
