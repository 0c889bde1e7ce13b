"""The gateway's list of public management routes equals the list in the metagame's routes."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import (
    INVITE,
    MANAGEMENT,
    NAME_FREE,
    PUBLIC_MANAGEMENT,
    REGISTER,
    TOKEN,
    Bucket,
    is_under,
    rule,
)
from svcserver.http.heads import METHODS
from svcserver.web.routes import WebRow
from svcserver.web.table import BadPath, RouteTable
from tests.gateway.test_policy import PIECES, dressed
from tests.support.game import Game
from tests.support.proves import proves

DEAR = [
    (TOKEN, Bucket.TOKEN),
    (REGISTER, Bucket.REGISTER),
    (NAME_FREE, Bucket.NAME),
    (INVITE, Bucket.NAME),
]


class PublicListTests(SynchronousTestCase):
    @proves(
        "components, where they listen, who may call them", "through the gateway only four answer"
    )
    def test_the_list_is_that_of_the_rows_marked_public(self) -> None:
        rows = [row for row in Game(self).door.rows if is_under(row.path.lower(), MANAGEMENT)]
        marked = {(row.method, row.path.lower()) for row in rows if row.public}
        marked |= {("HEAD", path) for method, path in marked if method == "GET"}
        self.assertEqual(marked, PUBLIC_MANAGEMENT)

    @proves("a new management route is blocked until it is listed")
    def test_every_other_management_row_is_closed(self) -> None:
        closed = 0
        for row in Game(self).door.rows:
            if is_under(row.path.lower(), MANAGEMENT) and not row.public:
                target = row.path.replace("<", "").replace(">", "").encode()
                result = rule(
                    row.method.encode(), target, upgrade=b"", has_body=False, gameserver_key=False
                )
                self.assertEqual(result.refuse and result.refuse.reason, "admin_route", row.path)
                closed += 1
        self.assertGreater(closed, 0)


class SpellingTests(SynchronousTestCase):
    """The gateway blocks a closed route in every spelling that the metagame accepts."""

    def setUp(self) -> None:
        self.table: RouteTable[WebRow] = RouteTable()
        self.closed = []
        for row in Game(self).door.rows:
            self.table.add(row, row)
            if is_under(row.path.lower(), MANAGEMENT) and not row.public:
                self.closed.append(row.path)

    def check(self, method: bytes, target: bytes) -> None:
        ruling = rule(method, target, upgrade=b"", has_body=False, gameserver_key=False)
        if ruling.refuse is None:
            try:
                result = self.table.match(method.decode(), target.partition(b"?")[0])
            except BadPath:
                return
            if result is not None:
                self.assertNotIn(result[0].path, self.closed, target)

    @settings(max_examples=300, deadline=None)
    @given(st.sampled_from(sorted(METHODS)), st.integers(0, 1 << 24), st.data())
    def test_a_closed_route_is_blocked_in_any_spelling_of_its_path(
        self, method: bytes, seed: int, data: st.DataObject
    ) -> None:
        path = data.draw(st.sampled_from(self.closed)).replace("<", "").replace(">", "")
        self.check(method, dressed(path, seed).encode("latin-1"))

    @settings(max_examples=300, deadline=None)
    @given(st.sampled_from(sorted(METHODS)), st.lists(PIECES, max_size=9).map("".join))
    def test_no_mixture_of_path_tricks_opens_a_closed_route(
        self, method: bytes, target: str
    ) -> None:
        self.check(method, b"/svc/api" + target.encode("latin-1"))
        self.check(method, b"/" + target.encode("latin-1"))

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from(DEAR), st.integers(0))
    def test_no_spelling_of_a_dear_route_pays_less(
        self, dear: tuple[str, Bucket], seed: int
    ) -> None:
        path, bucket = dear
        target = dressed(path, seed % (1 << 24)).encode("latin-1")
        if self.table.match("POST", target) is not None:
            ruling = rule(b"POST", target, upgrade=b"", has_body=True, gameserver_key=False)
            self.assertIs(ruling.bucket, bucket)
        self.assertIsNotNone(self.table.match("POST", path.upper().encode()))
