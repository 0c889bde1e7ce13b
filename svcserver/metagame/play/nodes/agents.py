"""The routes of the fleet's listener for the agents themselves."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypedDict

from attrs import field, frozen
from twisted.internet.interfaces import IReactorTime

from svcserver.edge.nodes import MAX_NODES
from svcserver.kernel.envelope import Empty
from svcserver.kernel.shapes import AtMost, text
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.once import Again
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.nodes.orders import MOST_ORDERS, NodeOrders
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare

LOOK_S = 0.25  # between two listings that a node causes


@frozen
class AgentPoll:
    """The orders that an agent has carried out, and whether an allowlist helper runs beside it."""

    done: Annotated[tuple[Annotated[str, text(1, 64)], ...], AtMost(MOST_ORDERS)]
    helper: bool


class OrderEntry(TypedDict):
    """An order: ``allow`` an address, or ``withdraw`` a network."""

    id: str
    act: str
    address: str


class OrdersReply(TypedDict):
    """The orders for a node."""

    orders: list[OrderEntry]


@frozen
class AgentRoutes:
    """The routes that the agents of nodes call."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.NODE)
    orders: NodeOrders
    deploy: DeployClient
    clock: IReactorTime
    _looks: Throttle = field(factory=lambda: Throttle(LOOK_S, MAX_NODES), init=False)

    @routes.row(
        "POST",
        "/svc/node/orders",
        body=AgentPoll,
        reply=OrdersReply,
        again=Again.NATURAL,
        quiet=True,
    )
    async def poll(self, call: Call[AgentPoll]) -> Answer:
        """Return the orders for the node, after a wait of up to five seconds for the first."""
        call.request.hopeless = True  # a stop does not wait for it
        sent = call.body
        orders = await self.orders.poll(call.caller.node, sent.done, has_helper=sent.helper)
        entries: list[OrderEntry] = [
            {"id": order.id, "act": order.act, "address": order.address} for order in orders
        ]
        return Answer(200, {"orders": entries})

    @routes.row("POST", "/svc/node/changed", reply=Empty, again=Again.NATURAL, quiet=True)
    async def changed(self, call: Call) -> Answer:
        """Make the deploy server list the game servers, because one has started or ended."""
        if self._looks.due(call.caller.node, self.clock.seconds()):
            await self.deploy.look()
        return Answer(200, EMPTY_OBJECT)
