"""The game servers that the server status lists, with their players. Spec: 2 §2 Server status."""

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.metagame.owner.management.rules import Placed, RunningGameServer, Whereabouts
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.matches import Sent
from svcserver.metagame.play.matchmaking.store import LiveMatches
from svcserver.metagame.play.presence.rules import Place, map_name

CITY_PLAYERS = 32


@frozen
class DeployedInstances:
    """The deploy server's game servers and the players on them.

    If the deploy server does not answer within 2 s, the list of game servers is empty.
    """

    deploy: DeployClient
    matches: LiveMatches
    titles: Titles
    city_title: str

    def place(self, players: list[Whereabouts]) -> Deferred[Placed]:
        return Deferred.fromCoroutine(self._place(players))

    async def _place(self, players: list[Whereabouts]) -> Placed:
        records = await self.deploy.game_servers()
        sent = await self.matches.sent_to(player.account_id for player in players)
        of_player = {
            player.account_id: record["id"]
            for player in players
            if (record := _record_of(player, records, sent.get(player.account_id))) is not None
        }
        counts: dict[str, int] = {}
        for instance in of_player.values():
            counts[instance] = counts.get(instance, 0) + 1
        return Placed([self._instance(player, counts) for player in records], of_player)

    def _instance(self, record: dict[str, Any], counts: dict[str, int]) -> RunningGameServer:
        most = record.get("maxPlayers")
        if most is None and record.get("kind") == "city":
            most = CITY_PLAYERS
        return RunningGameServer(
            record["id"],
            record.get("kind"),
            self.titles.title(record, self.city_title),
            map_name(record["map"]),
            self.titles.behemoth(record),
            counts.get(record["id"], 0),
            most,
            record.get("startedAt"),
        )


def _record_of(
    player: Whereabouts, records: list[dict[str, Any]], sent: Sent | None
) -> dict[str, Any] | None:
    kind = player.where.value
    same = [candidate for candidate in records if candidate.get("kind") == kind]
    if player.where in (Place.CITY, Place.DOJO):
        return same[0] if same else None
    if player.where not in (Place.HUNT, Place.TUTORIAL):
        return None
    for record in same:
        if player.account_id in (record.get("expectedPlayers") or []):
            return record
    if sent is None:
        return None
    name = map_name(player.map).lower()
    for record in same:
        if record.get("port") == sent.server.port and name == map_name(str(record["map"])).lower():
            return record
    return None
