"""Players whose requests the gateway repeats after a crash of the metagame."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Connection, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.kernel.headers import ATTEMPT, GATEWAY, REQUEST_ID
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from tests.metagame.play.matchmaking.base import Deploy
from tests.support.browser import Page
from tests.support.game import GAME_SERVER_KEY, Game, Player
from tests.support.ledger import filled

LATER_S = 1.0  # from the first attempt to the second
SECRET = "gateway-secret-of-thirty-two-chars"
# entries that record signs of life or requests
SIGNS = ("online", "party_heard", "candidates", "name_guesses", "guild_names_checked")
RESULTS = ("attempts", "party_results", "candidate_results")
FRIENDS = "/friends/api/public/friends"
BLOCKED = "/friends/api/public/blocklist"
_select = cache(select)  # the same statement for each call, which is compiled once
HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_A"}


class GameFixture:
    """A game with four players who are not yet friends."""

    def __init__(self, test: SynchronousTestCase) -> None:
        self.test = test
        self.deploy = Deploy()
        self.game = Game(test, http=self.deploy, GATEWAY_SECRET=SECRET, **EVERY_ROUTE)
        self.ids = 0
        names = ("Ann_1", "Bob_1", "Cat_1", "Dan_1")
        self.ann, self.bob, self.cat, self.dan = (self.game.player(name) for name in names)

    def ask(self, who: Player, line: str, body: Any = None, **more: Any) -> Page:
        """Send a request; ``line`` is a method and a path."""
        method, path = line.split(" ")
        sent = {} if body is None else {"json": body}
        return self.game.browse(method, path, token=who.token, **sent, **more)

    def did(self, who: Player, line: str, body: Any = None) -> Any:
        """Send a request that must succeed; return the reply."""
        page = self.ask(who, line, body)
        self.test.assertIn(page.status, (200, 204), (line, page.body))
        return page.json if page.body else None

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"

    def send(self, request_id: str, number: int, who: Player, line: str, body: Any = None) -> Page:
        """Send one attempt of a request, as the gateway does."""
        marks = {GATEWAY.decode(): SECRET, REQUEST_ID.decode(): request_id}
        if number > 1:
            marks[ATTEMPT.decode()] = str(number)
        return self.ask(who, line, body, headers=marks)

    def end(self) -> None:
        """End the game, so that the next game can use the database."""
        self.game.ledger.free()

    def pass_time(self, seconds: float = LATER_S) -> None:
        self.game.clock.advance(seconds)

    def state(self) -> dict[str, Any]:
        """Return all stored data except heartbeats and stored request results."""

        stored = {
            name: rows
            for name, rows in self.game.ledger.run(contents).items()
            if name not in RESULTS
        }
        board = json.parse_deep(orjson.dumps(self.game.board.saved()))
        live = {
            kind: [entry[:2] for entry in entries]
            for kind, entries in board.items()
            if kind not in (*SIGNS, *RESULTS) and entries
        }
        return stored | live

    def keeps(self, request_id: str) -> bool:
        """Return whether a request's id is anywhere in the database or on the board."""
        stored = str(self.game.ledger.run(contents))
        return request_id in stored or request_id in orjson.dumps(self.game.board.saved()).decode()

    # -- how they come to stand as they do -------------------------------------

    def befriend(self, sender: Player, receiver: Player) -> None:
        for a, b in ((sender, receiver), (receiver, sender)):
            self.did(a, f"POST {FRIENDS}/{a.id}/{b.id}")

    def create_guild(self, leader: Player, *members: Player, name: str = "Slayers") -> str:
        body = {"leader_account_id": leader.id, "name": name, "nameplate": ""}
        self.did(leader, "POST /guild/validate", body)
        page = self.game.browse("POST", "/guild", json=body, game_server=GAME_SERVER_KEY)
        for member in members:
            self.did(leader, f"PUT /guild/invite/{member.id}")
            self.did(member, f"POST /guild/invite/accept/{self.guild_invite(member)}")
        return str(page.json["id"])

    def guild_invite(self, who: Player) -> str:
        return str(self.did(who, "GET /guild/invite/player")["invites"][0]["id"])

    def ranks(self, who: Player) -> dict[str, str]:
        page = self.ask(who, "GET /guild")
        members = page.json["payload"]["members"] if page.status == 200 else []
        return {self.name(member["phx_account_id"]): member["rank"] for member in members}

    def party(self, leader: Player, *members: Player) -> str:
        party_id = str(self.did(leader, "POST /party", {})["partyId"])
        for member in members:
            self.did(leader, "PUT /party/invite", {"recipientPlayerId": member.id})
            self.did(member, f"PUT /party/invite/accept/{party_id}", {})
        return party_id

    def leader(self, who: Player) -> str:
        return self.name(self.did(who, "POST /party", {})["leaderPlayerId"])

    def together(self, who: Player) -> list[str]:
        return [
            self.name(account_id) for account_id in self.did(who, "POST /party", {})["playerIds"]
        ]

    def character(self, who: Player) -> str:
        return str(self.did(who, "GET /character")[0]["id"])

    def name(self, account_id: str) -> str:
        account = self.game.ledger.run(lambda tx: SqlAccounts(tx).find(account_id))
        return str(account.username)[:3]


PlayerRequest = tuple[Player, str, Any]  # the player, the method and path, and the body
Case = Callable[[GameFixture], PlayerRequest]
CASES: dict[str, tuple[int, Case]] = {}
PLAIN: set[str] = set()


def case(name: str, afresh: int) -> Callable[[Case], Case]:
    """Register a function that returns the route's request.

    ``afresh`` is the status that the same request gets with a new request id.
    """

    def keep(made: Case) -> Case:
        CASES[name] = afresh, made
        return made

    return keep


def plain(name: str, path: str = "", body: Any = None, afresh: int = 200) -> None:
    """Register a request that needs no preparation.

    ``path`` is the route's path with its arguments filled in, if it has any.
    """
    PLAIN.add(name)
    method, named = name.split(" ")
    CASES[name] = afresh, lambda fixture: (fixture.ann, f"{method} {path or named}", body)


def contents(tx: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each table that has rows."""
    return {
        name: [tuple(row) for row in tx.execute(_select(METADATA.tables[name]))]
        for name in sorted(filled(tx))
    }
