"""The matchmaking routes. Spec: 1 §4 Matchmaking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NotRequired, Protocol, TypedDict

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.launch_requests import ISLAND, LaunchRequest, check
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.play.matchmaking.launching import Launching
from svcserver.metagame.play.matchmaking.matches import Entry, Group, State
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Access, Answer, Call, Page, Routes, bare

JOIN_WAITS_S = 2.5
POLL_WAITS_S = 1.5
PERIOD_MS = 10_000
PONG = b"<!DOCTYPE html><html><body>pong</body></html>"
PINGS = 5


class JoinReply(TypedDict):
    """A new candidate; always MATCHING, the address is learned from the status poll."""

    candidateId: str
    gameMode: str
    huntId: str
    status: str
    statusReason: None


class CandidateWish(TypedDict, total=False):
    """Which world or hunt; the game sends more, of which nothing is read."""

    gameMode: str
    gameArgs: str | None
    playerHuntId: str | None


class GameServerInfo(TypedDict):
    """Where to go; the session's id is the candidate's."""

    buildId: str
    gameSessionId: str
    host: str
    port: int


class StandingReply(TypedDict):
    """``status`` is MATCHING, FAILED or, with ``serverInfo``, IN_PROGRESS."""

    candidateId: str
    candidateStatusPeriodMillis: int
    gameMode: str
    huntId: str
    playerStates: dict[str, dict[str, Json]]
    serverInfo: NotRequired[GameServerInfo]
    status: str
    statusDuration: float
    statusReason: None


class AliveWish(TypedDict):
    """Who is expected."""

    playerIds: list[str]


class AliveReply(TypedDict):
    """The same list."""

    expectedPlayerIds: list[Json]


class PartyBook(Protocol):
    """What matchmaking asks of the parties."""

    def of(self, account_id: AccountId, now: float) -> Any: ...


def _cancels(settings: Any) -> bool:
    return bool(settings.matchmaking_cancel)


def _misc(settings: Any) -> bool:
    return bool(settings.misc_routes)


@frozen
class Matchmaking:
    """Joining, polling and leaving."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    matchmaker: Matchmaker
    launching: Launching
    parties: PartyBook
    heard: Signal[Heard]
    now: Callable[[], float]

    @routes.row(
        "POST",
        "/candidate/join",
        access=Access.TOKEN,
        body=object,
        sends=CandidateWish,
        reply=JoinReply,
    )
    async def join(self, call: Call) -> Answer:
        """Ask for a world or a hunt; a refused join leaves an older one alone."""
        player = call.player
        wish = self._wish(call.body)
        entry = self.matchmaker.join(player, wish, self._group(player), self.now())
        if not entry.match.queued:
            await self.launching.wait(entry.match, JOIN_WAITS_S)
            entry = self.matchmaker.entry(player, self.now()) or entry  # an earlier launch, perhaps
        return Answer(200, joined(entry))

    def _wish(self, body: Json) -> LaunchRequest:
        if not self.settings.matchmaking or not isinstance(body, dict):
            raise Malformed("matchmaking is off")
        return check(body.get("gameMode"), body.get("gameArgs"), body.get("playerHuntId"))

    def _group(self, player: AccountId) -> Group | None:
        party = self.parties.of(player, self.now())
        return None if party is None or len(party.members) < 2 else party

    @routes.row("POST", "/candidate/join/<candidate_id>", access=Access.TOKEN, reply=JoinReply)
    async def follow(self, call: Call, candidate_id: str) -> Answer:
        """A party member follows the leader's candidate."""
        player = call.player
        group = self._group(player)
        entry = self.matchmaker.follow(player, candidate_id, group, self.now())
        return Answer(200, joined(entry))

    @routes.row("GET", "/candidate/status", access=Access.TOKEN, reply=StandingReply)
    async def status(self, call: Call) -> Answer:
        """Where the caller stands; a poll starts what is due and retries capacity."""
        player = call.player
        entry = self.matchmaker.entry(player, self.now())
        if entry is None:
            raise Missing("not queued")
        if entry.match.party_id is not None:
            self.heard.send(Heard(player))
        await self.launching.wait(entry.match, POLL_WAITS_S)
        entry = self.matchmaker.entry(player, self.now())
        if entry is None:
            raise Missing("not queued any more")
        state = entry.state(self.now())
        if state is State.IN_PROGRESS:
            self.matchmaker.sent(player, entry, self.now())
        return Answer(200, self._standing(player, entry, state))

    def _standing(self, player: AccountId, entry: Entry, state: State) -> dict[str, Json]:
        match = entry.match
        in_party = match.party_id is not None
        reply: dict[str, Json] = {
            "candidateId": entry.candidate_id,
            "candidateStatusPeriodMillis": PERIOD_MS,
            "gameMode": entry.mode if in_party else ISLAND,
            "huntId": entry.hunt_id,
            "playerStates": {one: {} for one in (match.players if in_party else [player])},
        }
        if state is State.IN_PROGRESS and match.server is not None:
            reply["serverInfo"] = {
                "buildId": f"{self.settings.target_changelist}_1.4.4_shipping",
                "gameSessionId": entry.candidate_id,
                "host": match.server.host,
                "port": match.server.port,
            }
        return reply | {"status": state.value, "statusDuration": 0.0, "statusReason": None}

    @routes.row("DELETE", "/candidate", access=Access.TOKEN, when=_cancels, reply=dict)
    async def cancel(self, call: Call) -> Answer:
        """Cancel; a party leader's cancel is the party's. Off unless MATCHMAKING_CANCEL=1."""
        self.matchmaker.cancel(call.player, self._group(call.player))
        return Answer(200, EMPTY_OBJECT)

    @routes.row("DELETE", "/candidate/leave", access=Access.TOKEN, when=_cancels, reply=dict)
    async def leave(self, call: Call) -> Answer:
        """Only the caller leaves."""
        self.matchmaker.leave(call.player)
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/candidate/player/alive",
        access=Access.TOKEN,
        body=object,
        sends=AliveWish,
        when=_misc,
        reply=AliveReply,
    )
    async def alive(self, call: Call) -> Answer:
        """Echo who is expected."""
        players = call.fields.get("playerIds")
        return Answer(200, {"expectedPlayerIds": players if isinstance(players, list) else []})

    @routes.row("POST", "/candidate/player/register", access=Access.TOKEN, reply=dict)
    async def register(self, call: Call) -> Answer:
        """Nothing to register."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row("GET", "/candidate/regions", access=Access.TOKEN, reply=dict)
    async def regions(self, call: Call) -> Answer:
        """One region: the ping address of the settings."""
        target = self.settings.qos_target_url
        payload = {
            "maxPingingStepTime": 3,
            "pingCount": PINGS,
            "pingFrequency": 0.25,
            "regionUrls": [target] if target else [],
        }
        return Answer(200, {"code": 200, "message": "success", "payload": payload})

    @routes.row("GET", "/QoS", access=Access.NONE, reply=Page)
    async def pong(self, call: Call) -> Answer:
        """What the client pings."""
        return Answer(200, PONG, content_type="text/html; charset=utf-8")

    @routes.row("POST", "/key/generate", access=Access.TOKEN)
    async def generate_key(self, call: Call) -> Answer:
        """Always refused."""
        raise Malformed("no keys are generated")


def joined(entry: Entry) -> JoinReply:
    """The reply of both joins."""
    return {
        "candidateId": entry.candidate_id,
        "gameMode": entry.mode,
        "huntId": entry.hunt_id,
        "status": State.MATCHING.value,
        "statusReason": None,
    }
