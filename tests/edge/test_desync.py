"""Gateway and relay never disagree with their upstream on where a request ends."""

import warnings
from collections import Counter
from itertools import pairwise
from typing import Any

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.server import Request, Site

from tests.edge.desync import CASES, SMUGGLED, Case
from tests.edge.wires import OK, Edge, Wire, gateway, relay
from tests.support.proves import proves


def lapse(case: Case, edge: Edge, verdict: int, pieces: int) -> str:
    """Return what the edge did wrong with the case, or an empty string."""
    wire = edge.connect()
    data = case.data + SMUGGLED
    cuts = [len(data) * n // pieces for n in range(pieces + 1)]
    for begin, end in pairwise(cuts):
        if not wire.ended:
            wire.protocol.dataReceived(data[begin:end])
        edge.upstream.serve()
    requests = edge.upstream.take_requests()
    reply = wire.value()
    if verdict > 0:
        if [request.target for request in requests if request.complete]:
            return f"{len(requests)} requests arrived"
        if not reply.startswith(b"HTTP/1.1 %d " % verdict) or reply.count(b"HTTP/1.1 ") != 1:
            return f"answered {reply[:60]!r}"
        return "" if wire.over else "the connection goes on"
    targets = [request.target for request in requests]
    if len(requests) != -verdict or targets[-1] != b"/smuggled" or requests[0].body != case.body:
        return f"arrived: {requests}"
    return "" if reply.count(b"HTTP/1.1 200 ") == 2 else f"answered {reply!r}"


class DesyncTests(SynchronousTestCase):
    def test_the_corpus_has_twelve_families_of_eight(self) -> None:
        counts = Counter(case.family for case in CASES)
        self.assertGreaterEqual(len(counts), 12)
        self.assertGreaterEqual(min(counts.values()), 8)

    @proves("gateway: 400 bad_request")
    def test_the_gateway_handles_every_case_of_the_corpus_as_listed(self) -> None:
        for case in CASES:
            for pieces in (1, 2, 7, len(case.data)):
                with self.subTest(family=case.family, data=case.data, pieces=pieces):
                    self.assertEqual(lapse(case, gateway(), case.gateway, pieces), "")

    @proves("relay: forwards every request unchanged")
    def test_the_relay_handles_every_case_of_the_corpus_as_listed(self) -> None:
        for case in CASES:
            for pieces in (1, 2, 7, len(case.data)):
                with self.subTest(family=case.family, data=case.data, pieces=pieces):
                    self.assertEqual(lapse(case, relay(), case.relay, pieces), "")

    def test_the_corpus_catches_the_stock_reverse_proxy(self) -> None:
        lapses = [case for case in CASES if case.gateway > 0 and arrives_through_stock(case)]
        self.flushLoggedErrors()
        self.assertGreaterEqual(len(lapses), 10)


def arrives_through_stock(case: Case) -> bool:
    """Return whether twisted.web's own proxy forwards any part of a forbidden message."""
    with warnings.catch_warnings():
        # twisted.web's proxy uses a deprecated client
        warnings.simplefilter("ignore", DeprecationWarning)
        from twisted.web.proxy import ReverseProxyResource
    reactor = MemoryReactorClock()
    requests: list[Request] = []

    class RecordedRequest(Request):
        def __init__(self, *args: Any, **how: Any) -> None:
            super().__init__(*args, **how)
            requests.append(self)

    root = ReverseProxyResource("127.0.0.1", 80, b"", reactor)
    site = Site(root, requestFactory=RecordedRequest, reactor=reactor)
    channel: Any = site.buildProtocol(None)
    wire = Wire(channel)
    channel.makeConnection(wire)
    channel.dataReceived(case.data)
    arrived = False
    for _, _, factory, _, _ in reactor.tcpClients:
        client = factory.buildProtocol(None)
        upstream = Wire(client)
        client.makeConnection(upstream)
        arrived = arrived or bool(upstream.take())
        client.dataReceived(OK)
    for request in requests:
        if request.content is not None:
            request.content.close()
    return arrived
