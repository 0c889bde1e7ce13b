"""What is answered fits what the OpenAPI document says of it, and so does what we send."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
from openapi_schema_validator import OAS31Validator
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.dashboard.document import describe
from svcserver.metagame.rows import Access, Row
from svcserver.web.openapi import template
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

SWITCHES = {"STORE": "free", "ESCALATION_MODE": "real", "BACKEND_HEALTH": "1"}
STUB = {"PROGRESSION_MODE": "stub"}
QUERY = "?requiredTags=webstore&CharacterId={character_id}&UserId={user_id}&Username=Zoe_1"


class ReplyTests(SynchronousTestCase):
    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.boss = self.game.player("Boss_1", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        self.said = describe(self.game.door.rows, "1")
        self.names: dict[str, str] = defaultdict(lambda: "x")
        self.names |= {
            "user_id": self.ann.player.id,
            "account_id": self.ann.player.id,
            "character_id": self.ann.character,
            "objective_id": "o",
            "progression_id": "season09b",
            "content_type": "1",
            "season": "ESC_SEASON_1",
            "currency": "platinum",
            "sku_id": "bundle_armour_iron",
            "name": "Ann_1",
            "file": "app.js",
        }

    def check(self, shape: dict[str, Any], value: Any, what: str) -> None:
        whole = {**shape, "components": self.said["components"]}
        faults = [one.message for one in OAS31Validator(whole).iter_errors(value)]
        self.assertEqual(faults, [], what)

    def operation(self, row: Row) -> dict[str, Any]:
        found: dict[str, Any] = self.said["paths"][template(row.path)][row.method.lower()]
        return found

    def check_reply(self, row: Row, page: Any) -> None:
        content = self.operation(row)["responses"]["2XX"].get("content", {})
        if page.status == 200 and "application/json" in content:
            self.check(content["application/json"]["schema"], page.json, f"{row.name} {page.body}")

    def read_all(self) -> list[str]:
        answered = []
        for row in self.game.door.rows:
            if row.method != "GET":
                continue
            path = template(row.path).format_map(self.names)
            admin = row.access in (Access.ADMIN_KEY, Access.ACCOUNT_KEY, Access.REGISTERED)
            proof: dict[str, Any] = (
                {"key": self.boss.key} if admin else {"token": self.ann.player.token}
            )
            page = self.game.browse("GET", path + QUERY.format_map(self.names), **proof)
            self.check_reply(row, page)
            answered += [row.path] if page.status == 200 else []
        return answered

    @proves("svcctl openapi")
    def test_every_read_is_answered_as_described(self) -> None:
        for switches in (SWITCHES, SWITCHES | STUB, {"STATUS_EXTRA": "0"}):
            self.start(**switches)
            self.ann.add("ORE", 1)
            held = {"catalogId": "LT_BASIC", "instanceId": "i-1"}
            self.assertEqual(self.ann.transact(addInstancedItems=[held]).status, 200)
            self.assertGreater(len(self.read_all()), 50)

    @proves("svcctl openapi")
    def test_documented_writes_fit_and_so_do_their_answers(self) -> None:
        self.start(**SWITCHES)
        track, objective = {"progression_id": "season09b", "progress": 250}, {"objective_id": "o"}
        sent: dict[str, Any] = {
            "POST /account/api/oauth/token": {"exchange_code": self.ann.player.key},
            "POST /login": {"email": self.ann.player.id},
            "POST /account/mapping": {"srcAccountType": "extidp", "ids": [self.ann.player.id]},
            "POST /accountinfo/public": {"displayname": "ann_1"},
            "PUT /character": {"name": "X"},
            "POST /character": {
                "characterId": self.ann.character,
                "data": "{}",
                "updateVersion": 5,
            },
            "POST /inventory": {
                "characterId": self.ann.character,
                "transactionId": "t-1",
                "addStackedItems": [{"catalogId": "X", "quantity": 2}],
                "removeInstancedItems": [{"instanceId": "i-1"}],
            },
            "POST /breadcrumbs/<character_id>": {"breadcrumbs": [{"a": 1}], "updateVersion": 4},
            "POST /encountered-content/<character_id>": {"content_type": 2, "content_id": "NPC"},
            "POST /encountered-content/query/<character_id>": {"content_types": [0, 2]},
            "PUT /gamesession/epic": None,
            "POST /heartbeat": {"map": "Map_LoginMenu", "state": "menu", "ping": -1},
            "POST /reconcile": {"authorization": "x"},
        }
        by_server: dict[str, Any] = {
            "POST /progression/<user_id>": {
                "progress_tracks": [track],
                "objectives": [objective | {"value": 5, "completed_count": 1}],
            },
            "POST /huntpass/<user_id>": {"progression_id": "season09b"},
            "POST /bounty/<user_id>": {"bounties": [{"bounty_id": "B", "slot_index": 0}]},
            "POST /bounty/delete/<user_id>": {"bounty_ids": ["B"]},
            "PUT /cooldown/batch/<user_id>": {"cooldowns": [{"cooldown_id": "X"}]},
            "POST /entitlementv2/<user_id>": {"entitlement": "X", "duration": 24},
            "POST /escalation/<season>/<user_id>": {
                "escalation_level": 3,
                "next_level_xp": 140,
                "talents_progress": [{"rank": 1, "talent_id": "ESC_TALENT_S1_TIER1_UPGRADEONE"}],
                "unlock_progress": [{"collected": False, "reward_id": "ESC_Reward_3"}],
                "update_version": 7,
            },
        }
        rows = {row.name: row for row in self.game.door.rows}
        for name, body in (sent | by_server).items():
            row = rows[name]
            how: dict[str, Any] = {"token": self.ann.player.token}
            if name in by_server:
                how = {"game_server": GAME_SERVER_KEY}
            if body is not None:
                how["data"] = orjson.dumps(body)
                content = self.operation(row).get("requestBody", {}).get("content")
                if content is not None:
                    self.check(content["application/json"]["schema"], body, name)
            page = self.game.browse(row.method, template(row.path).format_map(self.names), **how)
            self.assertEqual(page.status, 200, name)
            self.check_reply(row, page)
