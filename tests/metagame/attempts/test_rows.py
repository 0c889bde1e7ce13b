"""Each request that players can make, sent a second time. See ``svcserver/metagame/once.py``."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.metagame.once import Again
from svcserver.metagame.owner.people.data import OF_NOBODY, account_columns
from tests.metagame.attempts.base import (
    BLOCKED,
    CASES,
    FRIENDS,
    HUNT,
    PLAIN,
    SECRET,
    PlayerRequest,
    Town,
    case,
    plain,
)
from tests.metagame.belongings.inventory.base import sword
from tests.support.browser import Page

HERE = Path(__file__).parents[1]
REFUSED = ("POST /key/generate",)  # always

OWN = re.compile(r"^@?(?:case|plain)\(", re.MULTILINE)
# a feature's own tests may contain cases of its routes
for file in sorted(HERE.rglob("test_*.py")):
    if file != Path(__file__) and OWN.search(file.read_text()):
        import_module(".".join(file.relative_to(HERE.parents[1]).with_suffix("").parts))

plain("POST /account/mapping", body={"accountIds": []})
plain("POST /accountinfo/public", body={"displayName": "Bob_1"})
plain("POST /launcher/invite", body={"InviteCode": "ABCD-EFGH-JKMN"})
plain("POST /launcher/name-free", body={"Username": "Free_1"})
plain("POST /account/migrate")
plain("POST /event", body={})
plain("POST /heartbeat", body={})
plain("POST /key/generate", afresh=400)
plain("POST /motd/", afresh=204)
plain("POST /profile/update")
plain("POST /reconcile")
plain("POST /candidate/player/alive", body={})
plain("POST /candidate/player/register")
plain("POST /guild/validate", body={"name": "Slayers", "nameplate": ""})
plain("POST /inventory/<character_id>/<change_list>", "/inventory/x/y")
plain("PUT /gamesession/epic")
plain("DELETE /account/api/oauth/sessions/kill")
plain("DELETE /account/api/oauth/sessions/kill/<token>", "/account/api/oauth/sessions/kill/x")


case("POST /account/api/oauth/token", 200)(
    lambda town: (town.ann, "POST /account/api/oauth/token", {"exchange_code": town.ann.key})
)
case("POST /party", 200)(lambda town: (town.ann, "POST /party", {}))
case("POST /candidate/join", 200)(lambda town: (town.ann, "POST /candidate/join", HUNT))


@case("PUT /character", 200)
def create(town: Town) -> PlayerRequest:
    town.character(town.ann)
    town.pass_time(9.0)
    return town.ann, "PUT /character", {"name": "Second"}


case("POST /login", 200)(lambda town: (town.ann, "POST /login", {"email": town.ann.id}))
case("POST /party/status", 200)(
    lambda town: (town.ann, "POST /party/status", {"playerIds": [town.bob.id]})
)
case("POST /slayerlink/availability", 200)(
    lambda town: (town.ann, "POST /slayerlink/availability", {"account_ids": [town.bob.id]})
)


# -- what is held ------------------------------------------------------------


@case("POST /character", 409)
def save(town: Town) -> PlayerRequest:
    body = {"characterId": town.character(town.ann), "data": '{"a":"1"}', "updateVersion": 5}
    return town.ann, "POST /character", body


@case("POST /inventory", 200)
def transact(town: Town) -> PlayerRequest:
    items = [{"catalogId": "ORE", "quantity": 3}]
    body = {"characterId": town.character(town.ann), "addStackedItems": items}
    return town.ann, "POST /inventory", body | {"transactionId": "t-1"}


@case("POST /inventory/instanceditem", 409)
def item(town: Town) -> PlayerRequest:
    character = town.character(town.ann)
    body = {"characterId": character, "addInstancedItems": [sword()], "transactionId": "t-1"}
    town.did(town.ann, "POST /inventory", body)
    newer = {"characterId": character, **sword(2, '{"a":1}')}
    return town.ann, "POST /inventory/instanceditem", newer


@case("POST /loadout/<user_id>/<character_id>/<index>", 200)
def arm(town: Town) -> PlayerRequest:
    document = json.dump({"slot_index": 0, "update_version": 1, "custom_name": "Hunt"}).decode()
    path = f"/loadout/{town.ann.id}/{town.character(town.ann)}/0"
    return town.ann, f"POST {path}", {"data": document}


@case("POST /notification/<currency>", 204)
def redeem(town: Town) -> PlayerRequest:
    town.character(town.ann)
    offer = town.did(town.ann, "GET /product/skus/public?requiredTags=webstore")[0]["id"]
    token = town.did(town.ann, f"GET /token/platinum/{offer}")["purchaseToken"]
    return town.ann, f"POST /notification/platinum?token={token}", None


@case("POST /encountered-content/<character_id>", 200)
def meet(town: Town) -> PlayerRequest:
    path = f"/encountered-content/{town.character(town.ann)}"
    return town.ann, f"POST {path}", {"content_type": 1, "content_id": "Beast"}


@case("POST /encountered-content/query/<character_id>", 200)
def met(town: Town) -> PlayerRequest:
    path = f"/encountered-content/query/{town.character(town.ann)}"
    return town.ann, f"POST {path}", {"content_types": [1]}


# -- hunts -------------------------------------------------------------------


@case("POST /candidate/join/<candidate_id>", 200)
def follow(town: Town) -> PlayerRequest:
    town.party(town.ann, town.bob)
    candidate = town.did(town.ann, "POST /candidate/join", HUNT)["candidateId"]
    return town.bob, f"POST /candidate/join/{candidate}", None


@case("DELETE /candidate", 200)
def cancel(town: Town) -> PlayerRequest:
    town.did(town.ann, "POST /candidate/join", HUNT)
    town.pass_time()
    return town.ann, "DELETE /candidate", None


case("DELETE /candidate/leave", 200)(
    lambda town: (town.ann, "DELETE /candidate/leave", cancel(town)[2])
)


# -- friends and slayer links ------------------------------------------------


case("POST /friends/api/public/friends/<user_id>/<friend_id>", 204)(
    lambda town: (town.ann, f"POST {FRIENDS}/{town.ann.id}/{town.bob.id}", None)
)


@case("DELETE /friends/api/public/friends/<user_id>/<friend_id>", 204)
def unfriend(town: Town) -> PlayerRequest:
    town.befriend(town.ann, town.bob)
    return town.ann, f"DELETE {FRIENDS}/{town.ann.id}/{town.bob.id}", None


case("POST /friends/api/public/blocklist/<user_id>/<friend_id>", 204)(
    lambda town: (town.ann, f"POST {BLOCKED}/{town.ann.id}/{town.bob.id}", None)
)


@case("PUT /friends/api/public/blocklist/<user_id>/<friend_id>", 204)
def put_block(town: Town) -> PlayerRequest:
    return town.ann, f"PUT {BLOCKED}/{town.ann.id}/{town.bob.id}", None


@case("DELETE /friends/api/public/blocklist/<user_id>/<friend_id>", 204)
def unblock(town: Town) -> PlayerRequest:
    town.did(*put_block(town))
    return town.ann, f"DELETE {BLOCKED}/{town.ann.id}/{town.bob.id}", None


@case("PUT /slayerlink/invite", 200)
def ask_link(town: Town) -> PlayerRequest:
    town.befriend(town.ann, town.bob)
    return town.ann, "PUT /slayerlink/invite", {"account_id": town.bob.id, "slot": 1}


@case("POST /slayerlink/invite", 200)
def accept_link(town: Town) -> PlayerRequest:
    town.did(*ask_link(town))
    town.pass_time()
    return town.bob, "POST /slayerlink/invite", {"action": "accept", "account_id": town.ann.id}


@case("DELETE /slayerlink/invites/<account_id>", 200)
def drop_links(town: Town) -> PlayerRequest:
    town.did(*ask_link(town))
    town.pass_time()
    return town.bob, f"DELETE /slayerlink/invites/{town.bob.id}", None


@case("DELETE /slayerlink/links", 200)
def end_link(town: Town) -> PlayerRequest:
    town.did(*accept_link(town))
    return town.ann, "DELETE /slayerlink/links", {"account_id": town.bob.id}


# -- parties -----------------------------------------------------------------


@case("PUT /party/invite", 409)
def invite(town: Town) -> PlayerRequest:
    return town.ann, "PUT /party/invite", {"recipientPlayerId": town.bob.id}


@case("PUT /party/invite/accept/<invite_id>", 200)
def accept(town: Town) -> PlayerRequest:
    town.did(*invite(town))
    return town.bob, f"PUT /party/invite/accept/{town.party(town.ann)}", {}


@case("DELETE /party/invite", 200)
def decline(town: Town) -> PlayerRequest:
    town.did(*invite(town))
    return town.bob, "DELETE /party/invite", {"partyId": town.party(town.ann)}


@case("DELETE /party/member", 200)
def part(town: Town) -> PlayerRequest:
    town.party(town.ann, town.bob)
    return town.bob, "DELETE /party/member", None


@case("DELETE /party/member/<member_id>", 404)
def kick(town: Town) -> PlayerRequest:
    town.party(town.ann, town.bob)
    return town.ann, f"DELETE /party/member/{town.bob.id}", None


@case("PUT /party/member/promote/<member_id>", 403)
def promote(town: Town) -> PlayerRequest:
    town.party(town.ann, town.bob)
    return town.ann, f"PUT /party/member/promote/{town.bob.id}", None


@case("DELETE /party/leader/<leader_id>", 200)
def drop_leader(town: Town) -> PlayerRequest:
    town.party(town.ann, town.bob)
    return town.bob, f"DELETE /party/leader/{town.ann.id}", None


# -- guilds ------------------------------------------------------------------


@case("PUT /guild/invite/<account_id>", 409)
def guild_invite(town: Town) -> PlayerRequest:
    town.create_guild(town.ann)
    return town.ann, f"PUT /guild/invite/{town.bob.id}", None


@case("POST /guild/invite/accept/<invite_id>", 404)
def guild_accept(town: Town) -> PlayerRequest:
    town.did(*guild_invite(town))
    return town.bob, f"POST /guild/invite/accept/{town.guild_invite(town.bob)}", None


@case("DELETE /guild/invite/<invite_id>", 404)
def guild_decline(town: Town) -> PlayerRequest:
    town.did(*guild_invite(town))
    return town.bob, f"DELETE /guild/invite/{town.guild_invite(town.bob)}", None


@case("DELETE /guild/player", 404)
def guild_leave(town: Town) -> PlayerRequest:
    town.create_guild(town.ann, town.bob)
    return town.bob, "DELETE /guild/player", None


@case("DELETE /guild/player/<account_id>", 404)
def guild_kick(town: Town) -> PlayerRequest:
    town.create_guild(town.ann, town.bob)
    town.pass_time()
    return town.ann, f"DELETE /guild/player/{town.bob.id}", None


@case("PUT /guild/rank/<account_id>/<rank>", 403)
def hand_over(town: Town) -> PlayerRequest:
    town.create_guild(town.ann, town.bob)
    return town.ann, f"PUT /guild/rank/{town.bob.id}/leader", None


case("DELETE /guild/<guild_id>", 404)(
    lambda town: (town.ann, f"DELETE /guild/{town.create_guild(town.ann, town.bob)}", None)
)
ANEW = re.compile(rb'"(?:sessionid|[a-z_]*token|expires_[a-z]+)":("[^"]*"|[0-9]+)')
"""What is drawn anew for each answer, and means the same."""


def same(body: bytes) -> bytes:
    return ANEW.sub(b'"anew"', body)


class AttemptTests(SynchronousTestCase):
    # slow: every route of players, most in towns of their own
    def test_a_second_attempt_counts_once_and_is_answered_as_the_first(self) -> None:
        for name, (afresh, made) in CASES.items():
            town, control = self.towns(name)
            request, request_id = made(town), town.new_id()
            first = town.send(request_id, 1, *request)
            self.assertIn(first.status, (200, 204) if name not in REFUSED else (400,), name)
            state = town.state()
            self.assertEqual(unknown_to_deletion(town, state), [], "declare it with info=ACCOUNT")
            self.assertEqual(town.keeps(request_id), name in self.stored, name)
            town.pass_time()
            again = town.send(request_id, 2, *request)
            self.assertEqual((again.status, same(again.body)), (first.status, same(first.body)))
            self.assertEqual(town.state(), state, name)
            # a request with an unknown id runs as if it had just arrived
            self.assertEqual(town.send(town.new_id(), 2, *request).status, afresh, name)
            if control is not town:  # the same holds if the first attempt never arrived
                request = made(control)
                self.assertEqual(control.send(request_id, 2, *request).status, first.status, name)
                self.assertEqual(counts(control.state()), counts(state), name)
                town.end()
                control.end()

    def towns(self, name: str) -> tuple[Town, Town]:
        """Return two equal towns; if the request needs no preparation, return one town twice."""
        if name not in PLAIN:
            return Town(self), Town(self)
        self.shared = self.shared or Town(self)
        return self.shared, self.shared

    def setUp(self) -> None:
        self.shared: Town | None = None
        rows = Town(self).game.door.rows
        self.stored = {row.name for row in rows if row.again is Again.STORED}

    def test_every_repeatable_row_of_players_has_a_test_case(self) -> None:
        rows = {
            row.name
            for row in Town(self).game.door.rows
            if row.again in (Again.STORED, Again.NATURAL) and not row.game_server
        }
        self.assertEqual(rows, CASES.keys())

    def test_rows_that_game_servers_write_do_nothing_for_a_player(self) -> None:
        town = Town(self)
        for row in town.game.door.rows:
            if row.game_server and row.method != "GET":
                path = row.path.replace("<user_id>", town.ann.id)
                line = f"{row.method} {re.sub('[<>]', '', path)}"
                state, request_id = town.state(), town.new_id()
                first = town.send(request_id, 1, town.ann, line, {})
                self.assertEqual(town.send(request_id, 2, town.ann, line, {}).status, first.status)
                self.assertEqual(town.state(), state, row.name)


class NeverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.town = Town(self)
        # no route describes this reply, because the gateway defines it
        self.town.game.described.odd = True

    def assert_lost(self, page: Page) -> None:
        self.assertEqual((page.status, page.json), (502, {"error": "bad_gateway"}))
        self.assertNotIn("retry-after", page.headers)

    def test_a_retried_request_for_a_key_gets_no_second_key(self) -> None:
        town, name = self.town, {"Username": "New_1"}
        state = town.state()
        self.assert_lost(town.send(town.new_id(), 2, town.ann, "POST /svc/api/Register", name))
        self.assertEqual(town.state(), state)
        marks = {"x-svc-gateway": SECRET, "x-svc-request-id": town.new_id(), "x-svc-attempt": "2"}
        key = town.ann.key
        self.assert_lost(
            town.game.browse("POST", "/launcher/new-key", json={}, key=key, headers=marks)
        )
        self.assertEqual(town.state(), state)

    def test_an_inventory_transaction_without_an_id_is_made_once(self) -> None:
        town, (ann, line, body) = self.town, transact(self.town)
        del body["transactionId"]
        request_id = town.new_id()
        self.assertEqual(town.send(request_id, 1, ann, line, body).status, 200)
        state = town.state()
        self.assert_lost(town.send(request_id, 2, ann, line, body))
        self.assertEqual(town.state(), state)


def counts(state: dict[str, Any]) -> dict[str, int]:
    return {kind: len(rows) for kind, rows in state.items()}


def unknown_to_deletion(town: Town, state: dict[str, Any]) -> list[str]:
    """Return the columns that hold a player's id in rows that are not deleted with that player."""
    players = {player.id for player in (town.ann, town.bob, town.cat, town.dan)}
    columns = []
    for name, table in METADATA.tables.items():
        if name not in (*OF_NOBODY, "accounts"):
            for values in state.get(name, ()):
                row = dict(zip(table.c.keys(), values, strict=True))
                others = players - {row[column] for column in account_columns(table)}
                columns += [f"{name}.{column}" for column, value in row.items() if value in others]
    return columns
