"""The matchmaking routes. Spec: 1 §4 Matchmaking."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ClassVar, NoReturn

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late, OrEmpty
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.once import Again
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.matches import MatchState, Server
from svcserver.metagame.play.matchmaking import wire
from svcserver.metagame.play.matchmaking.acts import MatchmakingActs
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MISC_ROUTES, MetagameSettings
from svcserver.metagame.social.parties.store import LiveParties
from svcserver.web.request import HttpRequest
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, Page, bare


def _cancels(settings: Any) -> bool:
    return bool(settings.matchmaking_cancel)


@frozen
class MatchmakingRoutes:
    """The routes with which players join a hunt, poll for the game server, and leave again."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    acts: MatchmakingActs
    before_address: Callable[[HttpRequest, Server], Awaitable[None]]

    @routes.row(
        "POST",
        "/candidate/join",
        body=Late[wire.CandidateRequest],
        reply=wire.JoinReply,
        again=Again.STORED,
    )
    async def join(self, call: Call[Late[wire.CandidateRequest]]) -> Answer:
        """Request a game server for the city, the dojo or a hunt; then poll for its address."""
        player = call.player
        if not self.settings.matchmaking:
            raise Malformed("matchmaking is off")
        request = call.body.parse_value().checked()
        entry = await self.acts.join(player, request, attempt=call.attempt)
        return Answer(200, wire.show_joined(entry))

    @routes.row("POST", "/candidate/join/<candidate_id>", reply=wire.JoinReply, again=Again.NATURAL)
    async def follow(self, call: Call, candidate_id: str) -> Answer:
        """Join the party leader's search for a game server; ``candidate_id`` is the search's id."""
        return Answer(200, wire.show_joined(await self.acts.follow(call.player, candidate_id)))

    @routes.row("GET", "/candidate/status", reply=wire.StandingReply)
    async def status(self, call: Call) -> Answer:
        """Show the state of the caller's search for a game server, and the server's address.

        Clients poll every ten seconds. A poll may also close the queue and start the game server.
        """
        standing = entry, state = await self.acts.poll(call.player)
        if state is MatchState.IN_PROGRESS and entry.match.server is not None:
            await self.before_address(call.request, entry.match.server)
        return Answer(
            200, wire.show_standing(call.player, *standing, self.settings.target_changelist)
        )

    @routes.row("DELETE", "/candidate", when=_cancels, reply=Empty, again=Again.STORED)
    async def cancel(self, call: Call) -> Answer:
        """Cancel the caller's search for a game server; a leader cancels the whole party's search.

        This route exists only if the owner has set MATCHMAKING_CANCEL=1.
        """
        await self.acts.cancel(call.player, attempt=call.attempt)
        return Answer(200, EMPTY_OBJECT)

    @routes.row("DELETE", "/candidate/leave", when=_cancels, reply=Empty, again=Again.STORED)
    async def leave(self, call: Call) -> Answer:
        """Cancel the caller's own search for a game server; the party goes on searching."""
        await self.acts.leave(call.player, attempt=call.attempt)
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/candidate/player/alive",
        body=OrEmpty[wire.AliveRequest],
        when=MISC_ROUTES,
        reply=wire.AliveReply,
        again=Again.NATURAL,
    )
    async def alive(self, call: Call[wire.AliveRequest]) -> Answer:
        """Answer with the ids from the request as ``expectedPlayerIds``, without checking them."""
        return Answer(200, {"expectedPlayerIds": list(call.body.player_ids)})

    @routes.row("POST", "/candidate/player/register", reply=Empty, again=Again.NATURAL)
    async def register(self, call: Call) -> Answer:
        """Do nothing: players need no registration, but clients send this request."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row("GET", "/candidate/regions", reply=wire.RegionsReply)
    async def regions(self, call: Call) -> Answer:
        """Return the address that clients ping to measure their latency (QOS_TARGET_URL)."""
        return Answer(200, wire.show_regions(self.settings.qos_target_url))

    @routes.row("GET", "/QoS", access=Access.NONE, reply=Page)
    async def pong(self, call: Call) -> Answer:
        """Answer a ping, by which the client measures its latency to this host."""
        return Answer(200, wire.PONG, content_type="text/html; charset=utf-8")

    @routes.row("POST", "/key/generate", reply=NoReturn, again=Again.NATURAL)
    async def generate_key(self, call: Call) -> Answer:
        """Refuse every request: clients get no game-server keys."""
        raise Malformed("this server generates no keys")


def matchmaking(
    parts: Parts,
    matches: LiveMatches,
    parties: LiveParties,
    deploy: DeployClient,
    before_address: Callable[[HttpRequest, Server], Awaitable[None]],
) -> Iterator[Feature]:
    """Yield the matchmaking routes.

    Before a route returns the address of a game server, it awaits ``before_address``.
    """
    launching, news = Launching(matches, deploy, parts.clock), parts.news
    acts = MatchmakingActs(matches, launching, parties, news.active, news.sent_to_hunt)
    yield MatchmakingRoutes(parts.settings, acts, before_address)
