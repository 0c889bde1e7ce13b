"""An evening: players arrive side by side, meet, play, save, and go. Then the checks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, FirstError, gatherResults

from svcserver.ctl.host import Host
from svcserver.ctl.play import chatting, checks, datagram, together
from svcserver.ctl.play.broken import Broken
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import Story
from svcserver.ctl.play.wire import Wire
from svcserver.kernel.secrets import hex_token
from svcserver.relay.relaying import PortBusy, RelayService

NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal")
SAVES = 3
MAX_PLAYERS = 64


@frozen
class Wishes:
    """How the evening shall be. ``url``: the metagame alone, without relay and gateway."""

    players: int = 4
    hunts: int = 1
    url: str | None = None
    relay_port: int = 61010
    invite: str | None = None


@define(eq=False)
class Evening:
    """Lives one; ``live`` raises Broken, naming the link that broke."""

    reactor: Any
    wishes: Wishes
    story: Story
    host: Host | None = None
    chain: Chain | None = None
    players: list[Player] = field(factory=list)
    relays: list[RelayService] = field(factory=list)

    async def live(self) -> None:
        """All of it."""
        try:
            if self.chain is not None:
                await self.chain.look(self.reactor)
                self.story.say("every component of the host answers")
            await self._play()
        except Broken:
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
        await self._hunts()
        await self._trade()
        await self._save()
        await self._check()

    def _arrive(self) -> None:
        """Each player at an address of their own, behind a relay of their own."""
        tail = hex_token(4)
        for at in range(self.wishes.players):
            source = source_of(at)
            base = self.wishes.url or self._relay(at, source)
            name = f"{NAMES[at % len(NAMES)]}{at // len(NAMES) or ''}_{tail}"
            wire = Wire(self.reactor, base, source if self.wishes.url else "127.0.0.1")
            player = Player(self.reactor, wire, name, self.wishes.invite)
            if self.chain is not None:
                player.city = self.chain.city_map
            self.players.append(player)
        names = ", ".join(one.name for one in self.players)
        self.story.say(f"{len(self.players)} players come: {names}")

    def _relay(self, at: int, source: str) -> str:
        assert self.chain is not None  # noqa: S101 - the command gives one without --url
        relay = RelayService(
            self.reactor, self.chain.gateway, port=self.wishes.relay_port + at, bind=source
        )
        try:
            relay.startService()
        except PortBusy as why:
            raise Broken(
                "relay", f"port {why} is taken; choose another with --relay-port"
            ) from None
        self.relays.append(relay)
        return f"http://127.0.0.1:{relay.port}"

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
            raise Broken("deploy", "the players were sent to different cities")
        await self._each(self._knock)
        await self._listed({where.port})
        self.story.say(f"all were matched into the city, which answers on UDP port {where.port}")

    async def _meet(self) -> None:
        """Friends, a guild, and talk in the city."""
        first, *others = self.players
        if others:
            await together.befriend(first, others[0])
            self.story.say(f"{first.name} and {others[0].name} became friends")
        if self._has("guild") and self.chain is not None:
            direct = Wire(self.reactor, self.chain.metagame)
            try:
                key = self.chain.game_server_key
                name = await together.found_guild(first, others, direct, key)
            finally:
                await direct.close()
            self.story.say(f"they founded the guild {name}")
        if self._has("chat"):
            heard = await chatting.talk(self.reactor, self.players, "City-evening", gather)
            self.story.say(f"everyone said hello in the chat; {heard} lines were heard, each once")

    async def _hunts(self) -> None:
        """In parties of up to four, none alone where it can be helped."""
        if self.wishes.hunts == 0:
            return
        count = -(-len(self.players) // together.PARTY)
        parties = [self.players[at::count] for at in range(count)]
        await gather([together.party_up(members[0], members[1:]) for members in parties])
        self.story.say(f"{len(parties)} {'party' if len(parties) == 1 else 'parties'} met")
        for number in range(self.wishes.hunts):
            hunt_id = together.HUNTS[number % len(together.HUNTS)]
            places = await gather([together.hunt(members, hunt_id) for members in parties])
            await self._each(self._knock)
            await self._listed({place.port for place in places})
            ports = ", ".join(str(place.port) for place in sorted(places, key=lambda p: p.port))
            self.story.say(f"hunt {number + 1}: their own game server answers on UDP port {ports}")
        await gather([together.disband(members) for members in parties])

    async def _listed(self, ports: set[int]) -> None:
        if self.chain is not None:
            await checks.running(self.reactor, self.chain.deploy, ports)

    async def _trade(self) -> None:
        """The shop and the files."""
        if self._has("store"):
            items = await gather([together.shop(one) for one in self.players])
            self.story.say(f"each took {items[0]} from the store, and has it once")
        if self._has("content") and self.chain is not None:
            downloads = await gather([together.download(one) for one in self.players])
            checks.same_files(self.chain.game_folder, downloads)
            self.story.say(f"each downloaded the game's {len(downloads[0])} files, byte for byte")

    def _has(self, feature: str) -> bool:
        return self.chain is not None and feature in self.chain.features

    async def _knock(self, player: Player) -> None:
        place = player.place
        assert place is not None  # noqa: S101 - set by the caller
        source = source_of(self.players.index(player))
        source = source if place.host.startswith("127.") else ""
        await datagram.answer_of(self.reactor, place.host, place.port, source)

    async def _save(self) -> None:
        for _ in range(SAVES):
            await self._each(Player.save)
        count = sum(one.saves for one in self.players)
        self.story.say(f"{count} saves of 40 KB were acknowledged, {SAVES} a player")

    async def _check(self) -> None:
        reactor, chain = self.reactor, self.chain
        base = self.wishes.url or (chain.metagame if chain is not None else "")
        await gather(
            [
                checks.read_again(reactor, base, one, source_of(200 + at))
                for at, one in enumerate(self.players)
            ]
        )
        self.story.say("a second login reads every document byte for byte")
        if chain is not None:
            await chain.let_in(reactor, [source_of(at) for at in range(len(self.players))])
            self.story.say("the allowlist helper let in every player's address")
        if self.host is not None:
            saves = checks.stored(self.host, self.players)
            self.story.say(f"the database holds {len(self.players)} accounts and {saves} saves")
            if (key := self.host.owner_key()) is not None:
                await checks.online(reactor, base, self.players, key)
                self.story.say("the owner's status page lists every player and the city")

    async def _leave(self) -> None:
        for one in self.players:
            await one.wire.close()
        for relay in self.relays:
            await relay.stopService()

    async def _each(self, act: Callable[[Player], Coroutine[Any, Any, None]]) -> None:
        """Everybody at the same time."""
        await gather([act(one) for one in self.players])


async def _to_the_city(player: Player) -> None:
    await player.join("CITY")
    await player.wait_for_server()
    await player.beat(player.city)


def source_of(at: int) -> str:
    """An address of 127.0.0.0/8 that only this player has."""
    return f"127.77.{at // 200 + 1}.{at % 200 + 11}"


async def gather(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Side by side; the first fault ends it, as itself."""
    running: list[Deferred[Any]] = [Deferred.fromCoroutine(one) for one in work]
    try:
        return list(await gatherResults(running, consumeErrors=True))
    except FirstError as first:
        for one in running:
            one.cancel()
        why = first.subFailure.value
        raise Broken("player", repr(why)) if why is None else why from None
