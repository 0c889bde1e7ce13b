"""The base of the guild tests: players, and guilds that are created as in the city."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.signals import GuildChanged
from tests.support.game import GAME_SERVER_KEY, Game, Player

ACK = {"code": "OK", "message": "", "payload": {}}
DAY = 24 * 3600


def code(word: str) -> str:
    return f"{word}AdorableQuillshot" if word else ""


class Base(SynchronousTestCase):
    environ: dict[str, str] = {}  # noqa: RUF012 - a test class's constant

    def setUp(self) -> None:
        self.game = Game(self, **self.environ)
        self.ann, self.bob, self.cat, self.dan = (
            self.game.player(name) for name in ("Ann", "Bob", "Cat", "Dan")
        )
        self.left: list[GuildChanged] = []
        self.game.parts.news.guild_changed.connect(self.left.append)

    def do(self, method: str, path: str, by: Player, body: Any = None) -> Any:
        sent = {} if body is None else {"json": body}
        # a new token, because days pass in these tests and a token is valid for one
        token = self.game.parts.tokens.sign(by.id)
        return self.game.browse(method, "/guild" + path, token=token, **sent)

    def ack(self, page: Any) -> None:
        self.assertEqual((page.status, page.json), (200, ACK))

    def refused(self, page: Any, status: int, word: str) -> None:
        self.assertEqual(page.status, status, page.body)
        self.assertEqual(list(page.json), ["code", "message", "payload"])
        self.assertEqual((page.json["code"], page.json["payload"]), (code(word), {}))
        self.assertTrue(page.json["message"])

    def validate(self, by: Player, name: Any, nameplate: Any = "", **more: Any) -> Any:
        body = {"leader_account_id": by.id, "name": name, "nameplate": nameplate} | more
        return self.do("POST", "/validate", by, body)

    def create(self, leader: Any, name: Any, nameplate: Any = "", **more: Any) -> Any:
        leader_id = leader.id if isinstance(leader, Player) else leader
        body = {"leader_account_id": leader_id, "name": name, "nameplate": nameplate}
        sent = {"game_server": GAME_SERVER_KEY} | more
        return self.game.browse("POST", "/guild", json=body, **sent)

    def create_guild(self, leader: Player, name: str = "Slayers", nameplate: str = "") -> str:
        self.ack(self.validate(leader, name, nameplate))
        page = self.create(leader, name, nameplate)
        self.assertEqual(page.status, 200, page.body)
        return str(page.json["id"])

    def mine(self, who: Player) -> Any:
        page = self.do("GET", "", who)
        return page.json["payload"] if page.status == 200 else None

    def ranks(self, who: Player) -> dict[str, str]:
        guild = self.mine(who)
        return (
            {member["phx_account_id"]: member["rank"] for member in guild["members"]}
            if guild
            else {}
        )

    def invites(self, who: Player) -> Any:
        return self.do("GET", "/invite/player", who).json["invites"]

    def invite(self, by: Player, to: Player) -> Any:
        return self.do("PUT", f"/invite/{to.id}", by)

    def join(self, by: Player, *players: Player) -> None:
        for player in players:
            self.ack(self.invite(by, player))
            newest = self.invites(player)[0]["id"]
            self.ack(self.do("POST", f"/invite/accept/{newest}", player))

    def rank(self, by: Player, target: Player, word: str) -> Any:
        return self.do("PUT", f"/rank/{target.id}/{word}", by)

    def block(self, by: Player, whom: Player, method: str = "POST") -> None:
        path = f"/friends/api/public/blocklist/{by.id}/{whom.id}"
        token = self.game.parts.tokens.sign(by.id)
        self.assertEqual(self.game.browse(method, path, token=token).status, 204)
