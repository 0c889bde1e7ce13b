"""``svcctl openapi`` prints the OpenAPI document."""

import json

from twisted.trial.unittest import SynchronousTestCase

from tests.ctl.command import new_host, nowhere, svcctl
from tests.support.proves import proves


class OpenApiTests(SynchronousTestCase):
    @proves("svcctl openapi")
    def test_openapi_prints_the_document_of_a_host(self) -> None:
        host = new_host(nowhere(self))
        ran = svcctl("openapi", "--config", host)
        self.assertEqual(ran.status, 0, ran.err)
        document = json.loads(ran.out)
        self.assertEqual(document["openapi"], "3.1.0")
        self.assertIn("/svc/api/ServerStatus", document["paths"])

    def test_openapi_without_a_host_fails_with_one_line(self) -> None:
        ran = svcctl("openapi", "--config", nowhere(self))
        self.assertNotEqual(ran.status, 0)
        self.assertIn("svcctl init", ran.line)
