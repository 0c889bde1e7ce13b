"""The content server gives equal answers on our own HTTP channel and as a Klein app."""

from treq.testing import StubTreq

from svcserver.content.service import Sender
from tests.content import test_files_route, test_public_routes
from tests.content.support import DeskCase


class OnKlein(DeskCase):
    """A test case whose requests go through the Klein app to the same content server."""

    def setUp(self) -> None:
        super().setUp()
        self.site = StubTreq(Sender(self.desk, self.transfers).resource())


class FilesOnKlein(OnKlein, test_files_route.FilesTests):
    """All tests of game files, on the Klein app."""


class RefusalsOnKlein(OnKlein, test_files_route.RefusalTests):
    """All tests of refused files, on the Klein app."""


class PublicRoutesOnKlein(OnKlein, test_public_routes.ManifestTests):
    """All tests of the manifest, on the Klein app."""
