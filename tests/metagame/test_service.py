"""The construction of the metagame service."""

import tempfile

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.factory import BoardSnapshot
from svcserver.db.sqlite import SqliteLedger
from svcserver.metagame.service import Options, makeService
from svcserver.web.serving import Listening, OrderedServices
from tests.support.game import settings


class OrderTests(SynchronousTestCase):
    def test_the_database_starts_before_and_stops_after_all_requests(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        options = Options()
        options["env-file"] = None
        options.settings = settings(DATABASE_URL=f"sqlite:///{folder}/svc.db")
        options.warnings, options.environ = [], {}
        [answering] = [
            part
            for part in makeService(options, MemoryReactorClock())
            if isinstance(part, OrderedServices)
        ]
        live_state, first, *_, last = answering
        self.assertIsInstance(live_state, BoardSnapshot)  # written when nobody changes it any more
        self.assertIsInstance(first, SqliteLedger)
        self.assertIsInstance(last, Listening)
