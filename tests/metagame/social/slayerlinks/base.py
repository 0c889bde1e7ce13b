"""The base of the slayer link tests: friends, and the replies of each route."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import Game, Player

ROWS = (
    ("GET", "/status_good"),
    ("GET", "/invites"),
    ("GET", "/links"),
    ("PUT", "/invite"),
    ("POST", "/invite"),
    ("DELETE", "/invites/x"),
    ("DELETE", "/links"),
    ("POST", "/availability"),
)


HOUR = 3600


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        names = ("Ann", "Bob", "Cat", "Dan", "Eve")
        self.ann, self.bob, self.cat, self.dan, self.eve = self.players = [
            self.game.player(name) for name in names
        ]
        for friend in self.players[1:]:
            self.befriend(self.ann, friend)

    def befriend(self, first: Player, second: Player) -> None:
        for a, b in ((first, second), (second, first)):
            self.social("POST", "friends", a, b)

    def social(self, method: str, kind: str, a: Player, b: Player) -> None:
        path = f"/friends/api/public/{kind}/{a.id}/{b.id}"
        self.assertEqual(self.game.browse(method, path, token=a.token).status, 204)

    def do(self, method: str, path: str, by: Player, body: Any = None) -> Any:
        sent = {} if body is None else {"json": body}
        # a new token, because days pass in these tests and a token is valid for one
        token = self.game.parts.tokens.sign(by.id)
        return self.game.browse(method, "/slayerlink" + path, token=token, **sent)

    def ok(self, page: Any) -> Any:
        self.assertEqual(page.status, 200, page.body)
        self.assertEqual(list(page.json), ["code", "message", "payload"])
        self.assertEqual((page.json["code"], page.json["message"]), (None, "OK"))
        return page.json["payload"]

    def refused(self, page: Any, status: int) -> None:
        self.assertEqual(page.status, status, page.body)
        self.assertEqual(list(page.json), ["code", "message", "payload"])
        self.assertEqual((page.json["code"], page.json["payload"]), (str(status), None))
        self.assertTrue(page.json["message"])

    def put(self, by: Player, to: Any, slot: Any = 1, **more: Any) -> Any:
        whom = to.id if isinstance(to, Player) else to
        body = {"account_id": whom, "slot": slot, "action_source": "social_panel"} | more
        return self.do("PUT", "/invite", by, body)

    def post(self, by: Player, action: Any, partner: Player | None = None, **more: Any) -> Any:
        body = {"action": action} | ({"account_id": partner.id} if partner else {}) | more
        return self.do("POST", "/invite", by, body)

    def invite(self, by: Player, to: Player, slot: Any = 1) -> str:
        return str(self.ok(self.put(by, to, slot))["link_id"])

    def link(self, by: Player, to: Player, senders: int = 1, **more: Any) -> str:
        self.invite(by, to, senders)
        return str(self.ok(self.post(to, "accept", by, **more))["link_id"])

    def invites(self, who: Player) -> Any:
        return self.ok(self.do("GET", "/invites", who))["invites"]

    def links(self, who: Player) -> Any:
        return self.ok(self.do("GET", "/links", who))["links"]

    def free(self, who: Player, *ids: Any) -> dict[str, bool]:
        page = self.do("POST", "/availability", who, {"account_ids": list(ids)})
        listed = self.ok(page)["availability"]
        return {entry["account_id"]: entry["available"] for entry in listed}
