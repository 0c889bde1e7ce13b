"""The base of the party tests: players and their requests."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.signals import PartyChanged
from tests.support.game import Game, Player

BLOCKS = "/friends/api/public/blocklist/"


class Base(SynchronousTestCase):
    environ: dict[str, str] = {}  # noqa: RUF012 - a test class's constant

    def setUp(self) -> None:
        self.game = Game(self, **self.environ)
        names = ("Ann", "Bob", "Cat", "Dan", "Eve")
        self.ann, self.bob, self.cat, self.dan, self.eve = (
            self.game.player(name) for name in names
        )
        self.left: list[PartyChanged] = []
        self.game.parts.news.party_changed.connect(self.left.append)

    def do(self, method: str, path: str, by: Player, body: Any = None) -> Any:
        sent = {} if body is None else {"json": body}
        return self.game.browse(method, "/party" + path, token=by.token, **sent)

    def poll(self, who: Player) -> Any:
        return self.do("POST", "", who, {"buildId": "x", "featureOverrides": []}).json

    def invite(self, by: Player, whom: str, **more: Any) -> int:
        page = self.do("PUT", "/invite", by, {"recipientPlayerId": whom} | more)
        self.assertEqual(page.json, {})
        return int(page.status)

    def accept(self, who: Player, invite_id: str) -> Any:
        return self.do("PUT", f"/invite/accept/{invite_id}", who, {"partyId": "ignored"})

    def invites(self, who: Player) -> Any:
        return self.game.browse("GET", "/party/invites", token=who.token).json["invitations"]

    def join(self, leader: Player, *players: Player) -> str:
        party_id = str(self.poll(leader)["partyId"])
        for player in players:
            self.assertEqual(self.invite(leader, player.id), 200)
            self.assertEqual(self.accept(player, party_id).status, 200)
        return party_id

    def block(self, by: Player, whom: Player) -> None:
        path = f"{BLOCKS}{by.id}/{whom.id}"
        self.assertEqual(self.game.browse("POST", path, token=by.token).status, 204)

    def decline(self, who: Player, **body: Any) -> None:
        page = self.do("DELETE", "/invite", who, body)
        self.assertEqual((page.status, page.json), (200, {}))
