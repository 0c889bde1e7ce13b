"""The yardstick of reads: twisted.web with one resource and a small JSON answer, log on."""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet import reactor as installed
from twisted.web.resource import Resource
from twisted.web.server import Site

BODY = b'{"show-status":true,"text":"' + b"x" * 360 + b'"}'


class Small(Resource):
    """Answers every path with the same bytes."""

    isLeaf = True

    def render(self, request: Any) -> bytes:
        """The whole work of the yardstick."""
        request.setHeader(b"content-type", b"application/json")
        return BODY


class BufferedSite(Site):
    """A site with its request log in a plain file: the stock one flushes each line and rotates."""

    def _openLogFile(self, path: Any) -> Any:
        return open(path, "a", encoding="ascii")


def main() -> None:
    """Serve on the port of the first argument, with the request log in the second's file."""
    reactor: Any = installed
    site = BufferedSite(Small(), logPath=sys.argv[2].encode())
    reactor.listenTCP(int(sys.argv[1]), site, backlog=511, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main()
