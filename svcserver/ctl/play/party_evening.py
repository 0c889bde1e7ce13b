"""A party's session: the players form a party, then chat, hunt, get rewards, save and leave."""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import Any

from attrs import define
from twisted.internet.task import deferLater

from svcserver.ctl.play import looting, together
from svcserver.ctl.play.chat import Chat
from svcserver.ctl.play.crowd import gather, some_of
from svcserver.ctl.play.datagram import GOODBYE, HELLO
from svcserver.ctl.play.looting import HuntServer
from svcserver.ctl.play.player import Player, ServerAddress
from svcserver.players.requests import HUNTS

Knock = Callable[[Player, bytes], Awaitable[Any]]


@define(eq=False)
class PartyEvening:
    """A party of up to four players.

    ``chat`` is None if the host has no chat. ``server`` is None if this machine cannot
    act as a game server of the host.
    """

    members: Sequence[Player]
    knock: Knock
    listed: Callable[[Mapping[int, Set[str]]], Awaitable[None]]
    chat: Chat | None = None
    server: HuntServer | None = None
    progress: bool = False  # the host keeps real progression
    first: str = HUNTS[0]
    length_s: float = 0.0  # minimum length of a hunt

    async def live(self, hunts: int) -> list[ServerAddress]:
        """Run the party's session; return the game servers the party was sent to."""
        leader, *others = self.members
        await self._some_time(1.0)  # parties do not form in the same second
        party = await together.party_up(leader, others)
        room = f"Party-{party}"
        if self.chat is not None:
            await self.chat.enter(self.members, room)
        places: list[ServerAddress] = []
        for number in range(1, hunts + 1):
            if places:
                await together.go_home(self.members)
            places.append(await self._hunt(number, room))
        await together.disband(self.members)
        return places

    async def _hunt(self, number: int, room: str) -> ServerAddress:
        leader = self.members[0]
        began = leader.reactor.seconds()
        start = HUNTS.index(self.first)
        hunt_id = HUNTS[(start + number - 1) % len(HUNTS)]
        place = await together.hunt(self.members, hunt_id)
        await gather([_done(self.knock(member, named(HELLO, member))) for member in self.members])
        await self.listed({place.port: {member.account for member in self.members}})
        await gather([self._play(member, number, room) for member in self.members])
        await deferLater(leader.reactor, max(0.0, began + self.length_s - leader.reactor.seconds()))
        await gather([self._part(member) for member in self.members])
        return place

    async def _part(self, player: Player) -> None:
        await self.knock(player, named(GOODBYE, player))
        player.hunting = False

    async def _play(self, player: Player, number: int, room: str) -> None:
        """Run one player's steps during a hunt, each at a random moment."""
        await self._some_time(0.2)
        if self.chat is not None:
            await self.chat.send_to_players(player, self.members, room)
        if self.server is not None:
            await self.server.loot(player, number)
            await self._some_time(0.2)
            await looting.repair(player)
            if self.progress:
                await self.server.reward(player, number)
        await self._some_time(0.2)
        await looting.arm(player, number)
        await self._some_time(0.2)
        await player.save()

    async def _some_time(self, part: float) -> None:
        """Wait for a random time, at most the fraction ``part`` (0 to 1) of the hunt's length."""
        if self.length_s:
            await deferLater(self.members[0].reactor, some_of(part * self.length_s))


def named(words: bytes, player: Player) -> bytes:
    """Append the player's account to a datagram, so that the simulator can count players."""
    return words + b" " + player.account.encode()


async def _done(work: Awaitable[Any]) -> None:
    await work
