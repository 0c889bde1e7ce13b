"""A treq client that passes real HTTP bytes to a handler, without a socket."""

from typing import Any

from treq.testing import StubTreq
from twisted.web.resource import Resource

from svcserver.kernel.headers import GATEWAY
from svcserver.web.site import HttpFactory, HttpHandler


def browsing(front: HttpHandler) -> StubTreq:
    """Return a client, used as in ``await client.get("http://..")``; ``flush`` delivers bytes."""
    stub = StubTreq(Resource())
    agent: Any = stub._agent
    agent._serverFactory = HttpFactory(front, agent._memoryReactor, proxy_headers=(GATEWAY,))
    return stub
