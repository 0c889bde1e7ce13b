"""Orders to the agents of nodes, and how long a player waits for them."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.rehearsed import RehearsedBoard
from svcserver.edge.nodes import FleetFolder
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.nodes.orders import (
    AGAIN_S,
    DONE_S,
    MOST_ORDERS,
    POLL_S,
    NodeOrder,
    NodeOrders,
)
from svcserver.metagame.play.nodes.reports import AgentSeen

NODE, ADDRESS, PLAYER = "node1", "203.0.113.5", "198.51.100.7"
HUNT = Server(ADDRESS, 8770, NODE)


class NodeOrdersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.fleet = FleetFolder(Path(self.enterContext(tempfile.TemporaryDirectory())))
        self.fleet.issue(NODE, ADDRESS, "203.0.113.1", 61009)
        self.board = RehearsedBoard(self.clock.seconds)
        self.orders = NodeOrders(self.board, self.clock, self.fleet)

    def poll(
        self, done: Sequence[str] = (), *, has_helper: bool = True
    ) -> Deferred[tuple[NodeOrder, ...]]:
        return Deferred.fromCoroutine(self.orders.poll(NODE, done, AgentSeen(0, has_helper)))

    def open(self, address: str = PLAYER, server: Server = HUNT) -> Deferred[None]:
        return Deferred.fromCoroutine(self.orders.open(address, server))

    def test_a_player_waits_for_the_acknowledgement(self) -> None:
        poll, opened = self.poll(), self.open()
        [order] = self.successResultOf(poll)
        self.assertEqual((order.act, order.address), ("allow", PLAYER))
        self.assertNoResult(opened)
        again = self.poll([order.id])
        self.successResultOf(opened)
        self.assertNoResult(again)
        again.cancel()
        self.failureResultOf(again)

    def test_a_player_waits_two_seconds_at_most(self) -> None:
        opened = self.open()
        self.clock.advance(DONE_S)
        self.successResultOf(opened)
        self.assertEqual(len(self.successResultOf(self.poll())), 1)

    def test_an_open_address_is_not_ordered_again_soon(self) -> None:
        poll, opened = self.poll(), self.open()
        [order] = self.successResultOf(poll)
        self.poll([order.id]).addErrback(lambda _: None)
        self.successResultOf(opened)
        self.successResultOf(self.open())
        self.clock.advance(AGAIN_S)
        self.assertNoResult(self.open())
        self.clock.advance(DONE_S)

    def test_nobody_waits_for_other_machines_or_nodes_without_helper(self) -> None:
        self.successResultOf(self.open(server=Server(ADDRESS, 8770, "host")))
        self.successResultOf(self.open(address=""))
        poll = self.poll(has_helper=False)
        self.successResultOf(self.open())
        self.clock.advance(POLL_S)
        self.assertEqual(self.successResultOf(poll), ())

    def test_another_worker_may_answer_the_poll(self) -> None:
        worker = NodeOrders(self.board, self.clock, self.fleet)
        poll = Deferred.fromCoroutine(worker.poll(NODE, (), AgentSeen(0, True)))
        opened = self.open()
        [order] = self.successResultOf(poll)
        done = Deferred.fromCoroutine(worker.poll(NODE, [order.id], AgentSeen(0, True)))
        self.successResultOf(opened)
        self.clock.advance(POLL_S)
        self.assertEqual(self.successResultOf(done), ())

    def test_a_ban_withdraws_the_network_at_each_node(self) -> None:
        poll = self.poll()
        self.successResultOf(Deferred.fromCoroutine(self.orders.close(PLAYER)))
        [order] = self.successResultOf(poll)
        self.assertEqual((order.act, order.address), ("withdraw", PLAYER))

    def test_waiting_orders_are_bounded(self) -> None:
        for number in range(MOST_ORDERS + 5):
            self.open(f"address{number}")
        orders = self.successResultOf(self.poll())
        self.assertEqual(len(orders), MOST_ORDERS)
        self.assertEqual(orders[-1].address, f"address{MOST_ORDERS + 4}")
        self.clock.advance(DONE_S)
