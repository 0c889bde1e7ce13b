"""Request and reply shapes of matchmaking. Spec: 1 §4 Matchmaking."""

from typing import NotRequired, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.launch_requests import ISLAND, LaunchRequest, check
from svcserver.kernel.shapes import AsSent, Lenient, TextWithNul, camel_case, spelled
from svcserver.metagame.play.matches import Joined, MatchEntry, MatchState

PERIOD_MS = 10_000
PINGS = 5
PONG = b"<!DOCTYPE html><html><body>pong</body></html>"


@spelled(camel_case)
@frozen
class CandidateRequest:
    """A request to join a world or a hunt; unknown keys are ignored."""

    game_mode: TextWithNul
    game_args: TextWithNul | None = None
    player_hunt_id: TextWithNul | None = None

    def checked(self) -> LaunchRequest:
        """Return the validated request; raises Malformed."""
        return check(self.game_mode, self.game_args, self.player_hunt_id)


@spelled(camel_case)
@frozen
class AliveRequest:
    """A list of player ids, which the reply contains unchanged."""

    player_ids: Lenient[tuple[AsSent, ...]] = ()


class JoinReply(TypedDict):
    """A search for a game server: ``candidateId`` is its id, ``status`` is always MATCHING."""

    candidateId: str
    gameMode: str
    huntId: str
    status: str
    statusReason: None


class GameServerInfo(TypedDict):
    """The address of a game server; ``gameSessionId`` has the same value as ``candidateId``."""

    buildId: str
    gameSessionId: str
    host: str
    port: int


class StandingReply(TypedDict):
    """The state of a search: MATCHING, FAILED, or IN_PROGRESS with ``serverInfo``."""

    candidateId: str
    candidateStatusPeriodMillis: int
    gameMode: str
    huntId: str
    playerStates: dict[str, Empty]
    serverInfo: NotRequired[GameServerInfo]
    status: str
    statusDuration: float
    statusReason: None


class AliveReply(TypedDict):
    """The ids of players, copied from the request."""

    expectedPlayerIds: list[AsSent]


class Regions(TypedDict):
    """The addresses for the client to ping, the number of pings and their interval."""

    maxPingingStepTime: float
    pingCount: int
    pingFrequency: float
    regionUrls: list[str]


class RegionsReply(TypedDict):
    """The settings for the client's pings, in ``payload``; ``code`` is always 200."""

    code: int
    message: str
    payload: Regions


def show_joined(entry: MatchEntry | Joined) -> JoinReply:
    """Return the reply to a request that starts or joins a search."""
    return {
        "candidateId": entry.candidate_id,
        "gameMode": entry.mode,
        "huntId": entry.hunt_id,
        "status": MatchState.MATCHING.value,
        "statusReason": None,
    }


def show_standing(
    player: AccountId, entry: MatchEntry, state: MatchState, changelist: str
) -> dict[str, Json]:
    """Return the reply to a status poll, with its keys in the order that clients expect."""
    match = entry.match
    in_party = match.party_id is not None
    reply: dict[str, Json] = {
        "candidateId": entry.candidate_id,
        "candidateStatusPeriodMillis": PERIOD_MS,
        "gameMode": entry.mode if in_party else ISLAND,
        "huntId": entry.hunt_id,
        "playerStates": {
            account_id: {} for account_id in (match.players if in_party else [player])
        },
    }
    if state is MatchState.IN_PROGRESS and match.server is not None:
        reply["serverInfo"] = {
            "buildId": f"{changelist}_1.4.4_shipping",
            "gameSessionId": entry.candidate_id,
            "host": match.server.host,
            "port": match.server.port,
        }
    return reply | {"status": state.value, "statusDuration": 0.0, "statusReason": None}


def show_regions(target: str) -> RegionsReply:
    """Return the addresses that clients ping before joining; empty without QOS_TARGET_URL."""
    payload: Regions = {
        "maxPingingStepTime": 3,
        "pingCount": PINGS,
        "pingFrequency": 0.25,
        "regionUrls": [target] if target else [],
    }
    return {"code": 200, "message": "success", "payload": payload}
