"""The rows are the specification's tables: none missing, none added, none labelled otherwise."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Missing, Unauthenticated
from svcserver.web.routes import Access, Row
from tests.contract.coverage import own_routes
from tests.support.game import Game

TABLE = Path(__file__).with_name("rows.tsv")
EVERY_SWITCH = {
    "STORE": "free",
    "MATCHMAKING_CANCEL": "1",
    "ESCALATION_MODE": "real",
    "BACKEND_HEALTH": "1",
    "PROGRESSION_ALLOW_DELETE": "1",
}
MARKS = {
    "own": "own",
    "real_only": "real only",
    "game_server": "game server",
    "public": "public",
    "body_log": "body log",
    "bad_json": "bad_request",
}
IN_WORDS = {  # UsernameAvailable has words too, but never refuses
    "CreateInvite",
    "DisbandGuild",
    "Friends",
    "GuildInvite",
    "Guilds",
    "PartyInvite",
    "Register",
    "RenameUser",
}
SECRET = re.compile(r":(token|code)\b")


def line_of(row: Row) -> str:
    """A row as the table writes it."""
    marks = [word for name, word in MARKS.items() if getattr(row, name)]
    path = re.sub(r"<(\w+)>", r":\1", row.path)
    return "\t".join([row.method, path, row.access.value, ", ".join(marks)]).rstrip()


def ours(row: Row) -> bool:
    """What we add stands where the gateway lets nobody: beside the API, or named Dashboard…"""
    if row.path == "/svc/api/DashboardAccounts":
        return False
    added = row.path.startswith("/svc/api/Dashboard") and row.access is Access.ADMIN_KEY
    return added or (row.path.startswith("/svc/") and not row.path.startswith("/svc/api/"))


class RowTests(SynchronousTestCase):
    def test_every_row_bears_the_labels_of_the_specification(self) -> None:
        lines = TABLE.read_text().splitlines()
        wanted = {line for line in lines if not line.startswith("#")} | own_routes()
        mounted = {line_of(row) for row in Game(self, **EVERY_SWITCH).door.rows if not ours(row)}
        self.assertEqual(mounted - wanted, set())
        self.assertEqual(wanted - mounted, set())

    def test_every_credential_in_a_path_is_kept_out_of_the_log(self) -> None:
        for row in Game(self, **EVERY_SWITCH).door.rows:
            named = set(SECRET.findall(line_of(row)))
            self.assertEqual(named, set(row.secret_path), row.name)

    def test_only_these_management_routes_refuse_in_words_and_none_a_credential(self) -> None:
        rows = [row for row in Game(self, **EVERY_SWITCH).door.rows if "/svc/api/" in row.path]
        unknown, stranger = Missing("no such account", code="not_found"), Unauthenticated("no key")
        self.assertEqual(
            {
                row.path.removeprefix("/svc/api/")
                for row in rows
                if not ours(row) and row.refuse(404, unknown).body is not None
            },
            IN_WORDS,
        )
        self.assertEqual([row.name for row in rows if row.refuse(401, stranger).body], [])

    def test_switched_off_a_row_is_not_there_at_all(self) -> None:
        usual = {row.name for row in Game(self).door.rows}
        every = {row.name for row in Game(self, **EVERY_SWITCH).door.rows if not ours(row)}
        self.assertEqual(
            every - usual,
            {
                "DELETE /candidate",
                "DELETE /candidate/leave",
                "GET /svc/api/BackendHealth",
                "GET /product/sku/<sku_id>",
                "GET /token/<currency>/<sku_id>",
                "POST /notification/<currency>",
                "POST /escalation/<season>/<user_id>",
            },
        )
