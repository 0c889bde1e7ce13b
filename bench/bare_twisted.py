"""The baseline of reads: twisted.web with one resource, a small JSON reply and a request log."""

import sys
from typing import Any

from twisted.internet import reactor as installed
from twisted.web.resource import Resource
from twisted.web.server import Site

BODY = b'{"show-status":true,"text":"' + b"x" * 360 + b'"}'


class Small(Resource):
    """A resource that replies to every path with the same bytes."""

    isLeaf = True

    def render(self, request: Any) -> bytes:
        """Return the constant reply."""
        request.setHeader(b"content-type", b"application/json")
        return BODY


class BufferedSite(Site):
    """A site that buffers its request log; Twisted's own site flushes and rotates the log."""

    def _openLogFile(self, path: Any) -> Any:
        return open(path, "a", encoding="ascii")


def main() -> None:
    """Serve on the port in the first argument; the second argument is the request log's path."""
    reactor: Any = installed
    site = BufferedSite(Small(), logPath=sys.argv[2].encode())
    reactor.listenTCP(int(sys.argv[1]), site, backlog=511, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main()
