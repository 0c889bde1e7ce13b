"""Orders to the agents of nodes: open or close the game ports for a player's address.

An agent polls for its orders, because no service on a node accepts connections from the host. The
orders are on the board (the live state that all workers share), so any worker may answer the poll.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.kinds import Kind
from svcserver.edge.nodes import BadFleet, FleetFolder
from svcserver.kernel.ids import new_id
from svcserver.kernel.networks import network_of
from svcserver.kernel.refusals import Unavailable
from svcserver.metagame.play.matches import Server
from svcserver.metagame.play.nodes.reports import AGENTS, AgentSeen

log = Logger()

MOST_ORDERS = 256  # orders that wait for one node; the oldest are dropped
KEPT_S = 600.0
POLL_S = 5.0  # how long a poll waits for an order
DONE_S = 2.0  # how long a player waits for the node's firewall
AGAIN_S = 10.0  # an address that was opened is not opened again for this time
MOST_OPENED = 16_384


@frozen
class NodeOrder:
    """An order to a node's agent: open (``allow``) or close (``withdraw``) the game ports."""

    id: str
    act: str
    address: str  # a player's address to allow, or a network to withdraw


@frozen
class OrdersWait:
    """The notification that there are orders for a node."""

    node: str


@frozen
class OrdersDone:
    """The notification that a node's agent has carried out orders."""

    ids: tuple[str, ...]


ORDERS = Kind("node_orders", tuple[NodeOrder, ...], lives_s=KEPT_S)


@define(eq=False)
class NodeOrders:
    """The orders for each node of a fleet."""

    board: Board
    clock: IReactorTime
    fleet: FleetFolder
    _polls: dict[str, list[Deferred[None]]] = field(factory=dict, init=False)  # by node
    _pending: dict[str, Deferred[None]] = field(factory=dict, init=False)  # by order id
    _opened: dict[tuple[str, str], float] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.board.listen(OrdersWait, self._wake)
        self.board.listen(OrdersDone, self._note_done)

    # -- the players' side -----------------------------------------------------

    async def open(self, address: str, server: Server) -> None:
        """Open a node's game ports for a player; wait at most ``DONE_S`` for the agent."""
        node = server.node
        if not address or node not in self._nodes():
            return
        last = self._opened.get((node, address))
        if last is None or self.clock.seconds() - last >= AGAIN_S:
            await self._open(node, address)

    async def _open(self, node: str, address: str) -> None:
        order = NodeOrder(new_id(), "allow", address)
        done: Deferred[None] = Deferred()
        self._pending[order.id] = done
        try:
            if await self.board.transact(partial(_add, node=node, order=order)):
                await done.addTimeout(DONE_S, self.clock)
                self._note_opened(node, address)
        except TimeoutError:
            log.warn("node {node} did not open the game ports within {s} s", node=node, s=DONE_S)
        except Unavailable:
            text = "node {node} got no order to open its game ports: live state cannot be reached"
            log.warn(text, node=node)
        finally:
            self._pending.pop(order.id, None)

    def _note_opened(self, node: str, address: str) -> None:
        while len(self._opened) >= MOST_OPENED:
            del self._opened[next(iter(self._opened))]
        self._opened[node, address] = self.clock.seconds()

    async def close(self, network: str) -> None:
        """Close the game ports of all nodes for a player's network."""
        for key in [key for key in self._opened if network_of(key[1]) == network]:
            del self._opened[key]
        for node in self._nodes():
            order = NodeOrder(new_id(), "withdraw", network)
            await self.board.transact(partial(_add, node=node, order=order))

    def _nodes(self) -> list[str]:
        try:
            return [node.id for node in self.fleet.nodes()]
        except BadFleet:
            return []  # the listener logs it

    # -- the agents' side ------------------------------------------------------

    async def poll(
        self, node: str, done: Sequence[str], report: AgentSeen
    ) -> tuple[NodeOrder, ...]:
        """Return the orders for a node; if there are none, wait up to ``POLL_S`` for an order.

        ``done`` are the ids of the orders that the node's agent has carried out.
        """

        def take(tx: BoardTransaction) -> tuple[NodeOrder, ...]:
            tx.put(AGENTS, node, evolve(report, at=tx.now))
            orders = tx.get(ORDERS, node) or ()
            if orders:
                tx.drop(ORDERS, node)
            return orders

        if done:
            news = OrdersDone(tuple(done))
            await self.board.transact(lambda tx: tx.publish(news))
        waiting: Deferred[None] = Deferred()
        polls = self._polls.setdefault(node, [])
        polls.append(waiting)
        try:
            orders = await self.board.transact(take)
            if orders:
                return orders
            try:
                await waiting.addTimeout(POLL_S, self.clock)
            except TimeoutError:
                return ()
            return await self.board.transact(take)
        finally:
            polls.remove(waiting)
            if not polls:
                self._polls.pop(node, None)

    def _wake(self, news: OrdersWait) -> None:
        for waiting in list(self._polls.get(news.node, ())):
            if not waiting.called:
                waiting.callback(None)

    def _note_done(self, news: OrdersDone) -> None:
        for order_id in news.ids:
            done = self._pending.get(order_id)
            if done is not None and not done.called:
                done.callback(None)


def _add(tx: BoardTransaction, node: str, order: NodeOrder) -> bool:
    """Store an order; return False if the node has no allowlist helper to carry it out."""
    agent = tx.get(AGENTS, node)
    if agent is not None and not agent.has_helper:
        return False
    orders = tx.get(ORDERS, node) or ()
    tx.put(ORDERS, node, (*orders, order)[-MOST_ORDERS:])
    tx.publish(OrdersWait(node))
    return True
