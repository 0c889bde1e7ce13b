"""The baseline of writes: twisted.web with ``bench.bare_writer`` and a request log.

    python -m bench.bare_store PORT FOLDER

``POST /character`` and ``POST /inventory`` parse the body, store the same bytes that the metagame
would store, and reply after the fsync. The baseline checks no token and no game rule.
"""

from __future__ import annotations

import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import orjson
from attrs import define, field
from twisted.internet import reactor as installed
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from bench.bare_twisted import BufferedSite
from bench.bare_writer import loot, save, write

BODY = b'{"stored":true}'


@define(eq=False)
class Store(Resource):
    """A resource that parses a body, passes it to the writer, and replies after the commit."""

    isLeaf = True
    requests: SimpleQueue[Any] = field(factory=SimpleQueue)

    def __attrs_pre_init__(self) -> None:
        Resource.__init__(self)

    def render_POST(self, request: Any) -> int:
        """Pass a write to the writer, which replies later."""
        how = save if request.path == b"/character" else loot
        player = str(request.transport.getPeer().port)
        self.requests.put((how, player, orjson.loads(request.content.read()), request))
        return NOT_DONE_YET


def answer(stored: list[Any]) -> None:
    """Send the replies of a batch that is on disk."""
    for request in stored:
        request.setHeader(b"content-type", b"application/json")
        request.setHeader(b"content-length", b"%d" % len(BODY))
        request.write(BODY)
        request.finish()


def main() -> None:
    """Serve on the port in the first argument; the second argument names the data folder.

    The folder holds the database and the log.
    """
    reactor: Any = installed
    folder, store = Path(sys.argv[2]), Store()

    def done(stored: list[Any]) -> None:
        reactor.callFromThread(answer, stored)

    Thread(target=write, args=(folder, store.requests, done), daemon=True).start()
    log = str(folder / "bare-store-requests.log").encode()
    # otherwise twisted.web also parses each JSON body as a form: a third of the cost
    site = BufferedSite(store, logPath=log, parsePOSTFormSubmission=False)
    reactor.listenTCP(int(sys.argv[1]), site, backlog=511, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main()
