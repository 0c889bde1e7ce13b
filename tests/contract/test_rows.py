"""The routes match the specification's tables: the same routes with the same labels."""

import re

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import PUBLIC_MANAGEMENT
from svcserver.kernel.refusals import Missing, Unauthenticated
from svcserver.metagame.once import Again
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from svcserver.metagame.rows import Access, Routes, Row
from svcserver.web.routes import Answer, bare
from tests.contract.coverage import PAGE, Route, own_routes, routes
from tests.support.game import Game
from tests.support.proves import proves

STAFF = (Access.ADMIN_KEY, Access.GAME_SERVER, Access.ADMIN_OR_GAME_SERVER)
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


def route_of(row: Row) -> Route:
    """Return a route in the notation of the specification's page."""
    marks = [word for name, word in MARKS.items() if getattr(row, name)]
    path = re.sub(r"<(\w+)>", lambda name: f":{_camel(name[1])}", row.path)
    return Route(f"{row.method} {path}", row.access.value, ", ".join(marks))


def _camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(map(str.title, more))


def ours(row: Row) -> bool:
    """Return whether the route is our addition to the specification."""
    if row.path == "/svc/api/DashboardAccounts":
        return False
    added = row.path.startswith("/svc/api/Dashboard") and row.access in OF_DASHBOARD
    return added or (row.path.startswith("/svc/") and not row.path.startswith("/svc/api/"))


OF_DASHBOARD = (Access.ADMIN_KEY, Access.DIRECT)


async def _nothing() -> Answer:
    return Answer()


class RowTests(SynchronousTestCase):
    @proves(
        "components, where they listen, who may call them",
        "private mode: every route answers a direct caller, admin routes want the admin key",
        "unparseable JSON on seven management routes",
    )
    def test_every_row_bears_the_labels_of_the_specification(self) -> None:
        wanted = {*routes(PAGE.read_text()), *own_routes()}
        mounted = {route_of(row) for row in Game(self, **EVERY_ROUTE).door.rows if not ours(row)}
        unmarked = [f'@proves("{row.name} | {row.access}")' for row in mounted - wanted]
        self.assertEqual(unmarked, [], "marks that the tests of rows of our own must bear")
        self.assertEqual(wanted - mounted, set())

    def test_no_row_of_any_feature_is_missing_where_every_route_is_on(self) -> None:
        game = Game(self, **EVERY_ROUTE)
        rows = {row.name for feature in game.parts.features() for row in feature.routes.rows}
        mounted = {row.name for row in game.door.rows}
        self.assertEqual(mounted - rows, {"GET /svc/api/DashboardOpenApi"})
        self.assertEqual(rows - mounted, set())

    def test_every_credential_in_a_path_is_kept_out_of_the_log(self) -> None:
        for row in Game(self, **EVERY_ROUTE).door.rows:
            named = set(SECRET.findall(route_of(row).name))
            self.assertEqual(named, set(row.secret_path), row.name)

    @proves("other management routes, and credentials on all: a bare status")
    def test_only_the_listed_management_routes_explain_refusals(self) -> None:
        rows = [row for row in Game(self, **EVERY_ROUTE).door.rows if "/svc/api/" in row.path]
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

    @proves("MATCHMAKING_CANCEL")
    def test_a_row_that_is_switched_off_does_not_exist(self) -> None:
        usual = {row.name for row in Game(self).door.rows}
        every = {row.name for row in Game(self, **EVERY_ROUTE).door.rows if not ours(row)}
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

    def test_only_player_routes_that_issue_a_key_are_never_repeated(self) -> None:
        never = {
            row.name
            for row in Game(self, **EVERY_ROUTE).door.rows
            if row.again is Again.NEVER and row.access not in STAFF and not ours(row)
            if not row.path.startswith("/svc/")
            or (row.method, row.path.lower()) in PUBLIC_MANAGEMENT
        }
        self.assertEqual(never, {"POST /svc/api/Register", "POST /launcher/new-key"})

    def test_a_row_without_a_declared_second_attempt_is_refused(self) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            self.assertRaises(
                TypeError, Routes(bare).row(method, "/x", access=Access.NONE), _nothing
            )
        Routes(bare).row("GET", "/x", access=Access.NONE)(_nothing)
