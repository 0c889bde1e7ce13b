"""A scripted session: players register, meet, chat, hunt, trade and save; checks follow."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence, Set
from itertools import count, islice
from secrets import randbelow
from typing import Any

from attrs import define, field, frozen
from twisted.internet.task import deferLater

from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.host import Host
from svcserver.ctl.init import holder_name
from svcserver.ctl.output import counted
from svcserver.ctl.play import checks, datagram, together
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.chat import Chat
from svcserver.ctl.play.crowd import WIDE, gather, some_of
from svcserver.ctl.play.looting import HuntServer
from svcserver.ctl.play.party_evening import PartyEvening, named
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed, Story
from svcserver.ctl.play.timings import Timings
from svcserver.ctl.play.wire import HttpWire
from svcserver.kernel.secrets import hex_token
from svcserver.players.requests import HUNTS, NAMES
from svcserver.relay.relaying import PortBusy, RelayService

SAVES = 3  # minimum per player
MAX_PLAYERS = 1000
SHOWN = 8  # maximum entries of a list in a line
AT_ONCE = 32  # players who do the same thing concurrently
RESTART_S = 10.0  # how long a game server waits for a metagame that restarts
TRIES = 100  # ports that are tried for a relay
PARTY = 4  # maximum number of players in a party
CLAN = 20  # players of one guild: a leader may send 30 invites
DOWNLOADS = 8  # maximum number of concurrent downloads


@frozen
class PlayOptions:
    """The parameters of a session; if ``url`` is set, relay and gateway are bypassed."""

    players: int = 4
    hunts: int = 1
    url: str | None = None
    relay_port: int = 61010
    invite: str | None = None
    hunt_s: float = 0.0  # the minimum length of a hunt; players' actions are spread over it
    whole: bool = False  # every part of a session must be enabled
    keep: bool = False  # keep the players' accounts
    stand_in: bool = True  # game servers are simulated; real ones reply only to the game


@define(eq=False)
class Evening:
    """A simulated session.

    ``live`` runs the session, or raises PlayFailed, which names the faulty component.
    """

    reactor: Any
    options: PlayOptions
    story: Story
    host: Host | None = None
    chain: Chain | None = None
    players: list[Player] = field(factory=list)
    relays: list[RelayService] = field(factory=list)
    timings: Timings = field(factory=Timings)
    chat: Chat | None = None
    tag: str = field(factory=lambda: hex_token(4))
    street: int = field(factory=lambda: 1 + randbelow(250))
    _direct: HttpWire | None = None  # a direct connection to the metagame, as game servers have

    async def live(self) -> None:
        try:
            if self.chain is not None:
                if self.options.whole:
                    self.chain.demand_all()
                await self.chain.check_components(self.reactor)
                self.story.add("every component of the host answers")
            await self._play()
        except PlayFailed:
            if self.chain is not None and self.players:
                await self.chain.check_components(self.reactor)  # may raise a more exact error
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
        """Create the players, each with its own source address and its own relay."""
        ports = self._relay_ports()
        for at in range(self.options.players):
            source = self._source(at)
            base = self.options.url or self._relay(ports, source)
            name = f"{NAMES[at % len(NAMES)]}{at // len(NAMES) or ''}_{self.tag}"
            wire = HttpWire(self.reactor, base, source if self.options.url else "127.0.0.1")
            wire.timings = self.timings
            player = Player(self.reactor, wire, name, self.options.invite)
            if self.chain is not None:
                player.city = self.chain.city_map
            self.players.append(player)
        if self.chain is not None:
            self._direct = HttpWire(self.reactor, self.chain.metagame, patience_s=RESTART_S)
            self._direct.timings = self.timings
        names = ", ".join(player.name for player in self.players[:SHOWN])
        more = len(self.players) - SHOWN
        self.story.add(f"{counted(len(self.players), 'player')} arrive: {names}{and_more(more)}")

    def _relay_ports(self) -> Iterator[int]:
        """Yield the ports to try for relays, except those that the host's components use."""
        first = self.options.relay_port
        own = self.chain.ports if self.chain is not None else frozenset()
        return (port for port in count(first) if port == first or port not in own)

    def _relay(self, ports: Iterator[int], source: str) -> str:
        """Start a relay on the next free port; for the first relay, the first port must be free."""
        assert self.chain is not None  # noqa: S101 - the command gives one without --url
        for port in islice(ports, TRIES):
            relay = RelayService(self.reactor, self.chain.gateway, port=port, bind=source)
            try:
                relay.startService()
            except PortBusy as why:
                if not self.relays:
                    holder = holder_name(Machine().holder(why.host, why.port))
                    fault = f"port {why.port} is taken by {holder}; give another --relay-port"
                    raise PlayFailed("relay", fault) from None
                continue
            self.relays.append(relay)
            return f"http://127.0.0.1:{relay.port}"
        raise PlayFailed("relay", f"{TRIES} ports from {self.options.relay_port} on are taken")

    async def _settle_in(self) -> None:
        await self._each(Player.register, "registering")
        self.story.add("all have registered; each got an account key")
        await self._each(Player.log_in, "logging in")
        await self._each(Player.load, "loading characters")
        self.story.add("all have logged in and loaded their character")

    async def _city(self) -> None:
        await self._each(_to_the_city, "waiting for the city")
        where = self.players[0].place
        assert where is not None  # noqa: S101 - _to_the_city sets it or raises
        if {player.place for player in self.players} != {where}:
            raise PlayFailed("deploy", "the players were sent to different cities")
        await self._each(lambda player: self._knock(player, datagram.HELLO), "greeting the city")
        await self._listed({where.port: set()})
        answers = "which answers" if self.options.stand_in else "which runs"
        self.story.add(f"all were matched into the city, {answers} on UDP port {where.port}")

    async def _meet(self) -> None:
        """Create friendships, slayer links and guilds."""
        parties = self._parties()
        await self._all("making friends", [_befriend(members) for members in parties], AT_ONCE)
        pairs = [members for members in parties if len(members) > 1]
        made = counted(sum(len(first) - 1 for first in pairs), "friendship")
        if self._has("links"):
            await gather([together.link(first, second) for first, second, *_ in pairs], AT_ONCE)
            made += f" and {counted(len(pairs), 'slayer link')}"
        if pairs:
            self.story.add(f"they made {made}")
        if self._has("guild"):
            await self._create_guilds()

    async def _create_guilds(self) -> None:
        """Create guilds, each from the players of several parties.

        A game server's request creates each guild, as in the real game.
        """
        assert self._direct is not None and self.chain is not None  # noqa: S101 - _has says so
        direct, key = self._direct, self.chain.game_server_key
        founding = [together.found_guild(clan[0], clan[1:], direct, key) for clan in self._clans()]
        made = await self._all("founding guilds", founding, AT_ONCE)
        more = and_more(len(made) - 1)
        self.story.add(f"they founded the guild {made[0][0]}{more}, and everyone joined")

    async def _speak(self) -> None:
        """Make each player write to the city and guild chats, and whisper to the next player."""
        if not self._has("chat"):
            return
        chat = self.chat = Chat(self.reactor, self.timings, self.tag)
        self.story.begin("logging in to the chat", 0, self.reactor)
        await chat.log_in(self.players)
        rooms = [(f"City-{self.tag}", self.players)]
        if self._has("guild"):
            rooms += [(f"Guild-{clan[0].relations.guild}", clan) for clan in self._clans()]
        for room, members in rooms:
            await chat.enter(members, room)
        speeches = [
            self._send_line(member, members, room) for room, members in rooms for member in members
        ]
        await self._all("chatting", speeches, len(speeches))
        for player, listener in zip(
            self.players, [*self.players[1:], self.players[0]], strict=True
        ):
            if player is not listener:
                await chat.whisper(player, listener)
        self.story.begin("waiting for chat lines", 0, self.reactor)
        deliveries = await chat.settle()
        self.story.add(
            f"they talked in the city and the guild, and whispered: {chat.lines_sent} lines, "
            f"received {deliveries} times, none twice{chat.interruptions()}"
        )

    async def _send_line(self, player: Player, members: Sequence[Player], room: str) -> None:
        """Send a chat line at a random moment."""
        assert self.chat is not None  # noqa: S101 - _speak made it
        await deferLater(self.reactor, some_of(self.options.hunt_s))
        await self.chat.send_to_players(player, members, room)

    async def _hunts(self) -> None:
        """Run the hunts of all parties concurrently."""
        if self.options.hunts == 0:
            return
        outings = [self._outing(members, at) for at, members in enumerate(self._parties())]
        evenings = [item.live(self.options.hunts) for item in outings]
        places = await self._all("parties hunting", evenings)
        ports = sorted({place.port for listed in places for place in listed})
        shown = ", ".join(map(str, ports[:SHOWN])) + and_more(len(ports) - SHOWN)
        self.story.add(
            f"{counted(len(outings), 'party', 'parties')} met by invites, and hunted; their game "
            f"servers {'answered' if self.options.stand_in else 'run'} on UDP port {shown}"
        )
        if self._direct is not None:
            deals = sum(item.earned.transactions for item in self.players)
            self.story.add(
                f"{counted(deals, 'transaction')} of loot and repairs, none counted twice"
            )
        if self.chain is not None and self.options.stand_in:
            self.story.begin("waiting for the game servers to end", 0, self.reactor)
            kinds = await checks.gone(self.reactor, self.chain.deploy, self.players)
            left = "only the city runs" if kinds == ["city"] else f"{', '.join(kinds)} still run"
            self.story.add(f"their game servers have ended; {left}")

    def _outing(self, members: Sequence[Player], at: int) -> PartyEvening:
        server = None
        if self._direct is not None and self.chain is not None:
            server = HuntServer(self._direct, self.chain.game_server_key)
        first = HUNTS[at % len(HUNTS)]
        real = self._has("progression")
        length_s = self.options.hunt_s
        return PartyEvening(
            members, self._knock, self._listed, self.chat, server, real, first, length_s
        )

    async def _listed(self, groups: Mapping[int, Set[str]]) -> None:
        if self.chain is not None:
            await checks.running(self.reactor, self.chain.deploy, groups)

    async def _trade(self) -> None:
        """Make the players use the shop and download the game files."""
        if self._has("store"):
            visits = [together.shop(player) for player in self.players]
            items = await self._all("shopping", visits, AT_ONCE)
            self.story.add(f"each took {items[0]} from the store, and has it once")
        if self._has("content") and self.chain is not None:
            loads = [together.download(player) for player in self.players]
            downloads = await self._all("downloading the game", loads, DOWNLOADS)
            checks.same_files(self.chain.game_folder, downloads)
            files = counted(len(downloads[0]), "file")
            self.story.add(f"each downloaded the game, {files}, byte for byte")

    def _source(self, at: int) -> str:
        return source_of(at, self.street)

    def _has(self, feature: str) -> bool:
        return self.chain is not None and feature in self.chain.features

    async def _knock(self, player: Player, words: bytes) -> None:
        if not self.options.stand_in:
            return
        began = self.reactor.seconds()
        await datagram.answer_of(self.reactor, *self._way_to(player), words)
        self.timings.note("UDP answer of a game server", self.reactor.seconds() - began)

    def _way_to(self, player: Player) -> tuple[str, int, str]:
        """Return the host and port of the player's game server, and the source address to use."""
        place = player.place
        assert place is not None  # noqa: S101 - set by the caller
        source = self._source(self.players.index(player))
        return place.host, place.port, source if place.host.startswith("127.") else ""

    async def _save(self) -> None:
        await self._each(_save_some, "saving")
        saves = sum(player.saves for player in self.players)
        self.story.add(f"{saves} saves of 40 KB were acknowledged")

    async def _check(self) -> None:
        reactor, chain, players = self.reactor, self.chain, self.players
        if self.chat is not None:
            self.story.begin("waiting for chat lines", 0, reactor)
            deliveries = await self.chat.settle()
            self.story.add(
                f"of {self.chat.lines_sent} chat lines, {deliveries} deliveries"
                + (self.chat.interruptions() or ", not one was lost")
            )
        base = self.options.url or (chain.metagame if chain is not None else "")
        has = chain.features if chain is not None else frozenset()
        again = [
            checks.read_again(reactor, base, player, self._source(MAX_PLAYERS + at), has)
            for at, player in enumerate(players)
        ]
        await self._all("reading everything again", again, AT_ONCE)
        self.story.add("a second login reads every document byte for byte, and all that was earned")
        sources = [self._source(at) for at in range(len(players))]
        if chain is not None and await chain.let_in(reactor, sources):
            self.story.add("the allowlist helper let in every player's address")
        if self.host is not None:
            saves, deals = checks.stored(self.host, players)
            self.story.add(
                f"the database holds {len(players)} accounts, {saves} saves, {deals} transactions"
            )
            if (key := self.host.owner_key()) is not None:
                await self._each(lambda player: player.beat(player.city), "sending heartbeats")
                await checks.online(reactor, base, players, key)
                self.story.add("the owner's status page lists every player and the city")

    async def _leave(self) -> None:
        self.story.stop()
        for player in self.players:
            if player.hunting and self.options.stand_in:  # after a fault: let the server end
                words = named(datagram.HELLO, player), named(datagram.GOODBYE, player)
                await datagram.send(self.reactor, *self._way_to(player), *words)
        if self.chat is not None:
            self.chat.close()
        for wire in (self._direct, *(player.wire for player in self.players)):
            if wire is not None:
                await wire.close()
        for relay in self.relays:
            await relay.stopService()

    def _parties(self) -> list[list[Player]]:
        """Divide the players into nearly equal parties of up to four, so that few hunt alone."""
        needed = -(-len(self.players) // PARTY)
        return [self.players[at::needed] for at in range(needed)]

    def _clans(self) -> list[list[Player]]:
        """Return guilds of at most ``CLAN`` members, made of whole parties."""
        parties = self._parties()
        few = CLAN // PARTY
        groups = [parties[at : at + few] for at in range(0, len(parties), few)]
        return [[player for members in group for player in members] for group in groups]

    async def _each(self, act: Callable[[Player], Coroutine[Any, Any, None]], step: str) -> None:
        await self._all(step, [act(player) for player in self.players], AT_ONCE)

    async def _all(
        self, step: str, work: Sequence[Coroutine[Any, Any, Any]], wide: int = WIDE
    ) -> list[Any]:
        """Run the coroutines concurrently, and show the progress of a long step."""
        self.story.begin(step, len(work), self.reactor)

        async def run(part: Coroutine[Any, Any, Any]) -> Any:
            result = await part
            self.story.done()
            return result

        try:
            return await gather([run(part) for part in work], wide)
        finally:
            self.story.stop()
            for part in work:
                part.close()


async def _to_the_city(player: Player) -> None:
    await player.join("CITY")
    await player.wait_for_server()
    await player.beat(player.city)


async def _befriend(members: Sequence[Player]) -> None:
    """Create a friendship between the first member of a party and each other member."""
    for member in members[1:]:
        await together.befriend(members[0], member)


async def _save_some(player: Player) -> None:
    await player.save()
    while player.saves < SAVES:
        await player.save()


def and_more(number: int) -> str:
    """Return the end of a shortened list, such as `` and 3 more``; empty for 0."""
    return f" and {number} more" if number > 0 else ""


def source_of(at: int, street: int = 77) -> str:
    """Return an address in 127.0.0.0/8 for player number ``at``.

    The parameter ``street`` must differ between sessions that start within minutes of each other,
    because the gateway limits registrations by address.
    """
    return f"127.{street}.{at // 200 + 1}.{at % 200 + 11}"
