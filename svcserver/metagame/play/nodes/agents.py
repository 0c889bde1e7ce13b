"""The routes that the nodes' agents call, on the fleet's listener."""

from collections.abc import Callable
from typing import Annotated, ClassVar, TypedDict

from attrs import define, field, frozen
from twisted.internet.interfaces import IReactorTime

from svcserver.edge.nodes import MAX_NODES
from svcserver.kernel.envelope import Empty
from svcserver.kernel.refusals import Refusal, TooMany
from svcserver.kernel.shapes import AtMost, text
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.once import Again
from svcserver.metagame.play.deploy_client import DeployClient
from svcserver.metagame.play.nodes.orders import MOST_ORDERS, NodeOrders
from svcserver.metagame.play.nodes.reports import AgentSeen
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare

LOOK_S = 0.25  # between two updates of the list that one node causes
CHECK_S = 10.0  # between two checks of a node; after an error, its agent waits longer
LIST_S = 5.0  # between two requests for the states of the machines
MAX_CLOCK_S = 1e9  # the largest difference of clocks that the dashboard shows


@frozen
class AgentPoll:
    """The orders that an agent has carried out, and whether its node has an allowlist helper.

    ``helper_works`` says whether the helper answers and can change the firewall. ``clock`` is the
    node's time (epoch seconds). ``image`` says whether the node has the game servers' image, and
    ``reached`` says whether a datagram reached the node's game ports.
    """

    done: Annotated[tuple[Annotated[str, text(1, 64)], ...], AtMost(MOST_ORDERS)]
    helper: bool
    clock: float | None = None
    image: bool | None = None
    reached: bool | None = None
    helper_works: bool | None = None

    def report(self, now: float) -> AgentSeen:
        """Return the agent's report about its node; ``now`` is the host's time (epoch seconds)."""
        ahead = None
        if self.clock is not None:
            ahead = round(max(-MAX_CLOCK_S, min(MAX_CLOCK_S, self.clock - now)), 3)
        return AgentSeen(now, self.helper, ahead, self.image, self.reached, self.helper_works)


class OrderEntry(TypedDict):
    """An order to open game ports to an address (``allow``), or to close them (``withdraw``)."""

    id: str
    act: str
    address: str


class TrialEntry(TypedDict):
    """A port test: ``sent`` is the text to send to ``host``, ``awaited`` the text to receive."""

    port: int
    host: str
    sent: str
    awaited: str


class CheckReply(TypedDict):
    """The image that the node needs; ``trial`` is the test of its game ports, or null."""

    image: str
    trial: TrialEntry | None


class OrdersReply(TypedDict):
    """The orders for a node.

    ``down`` means that the swarm has lost the node, and has started the node's city or dojo on
    another machine.
    """

    orders: list[OrderEntry]
    down: bool


@define(eq=False)
class AgentRoutes:
    """The routes that the agents of nodes call."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.NODE)
    orders: NodeOrders
    deploy: DeployClient
    clock: IReactorTime
    wall_clock: Callable[[], float]
    _checks: Throttle = field(factory=lambda: Throttle(CHECK_S, MAX_NODES), init=False)
    _down: frozenset[str] = field(default=frozenset(), init=False)
    _listed_at: float = field(default=float("-inf"), init=False)
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
        """Return the node's orders; if there are none, wait up to five seconds for an order."""
        call.request.hopeless = True  # a service that stops does not wait for this poll
        sent = call.body
        report = sent.report(self.wall_clock())
        down = await self._is_down(call.caller.node)  # first, so that it delays no order
        orders = await self.orders.poll(call.caller.node, sent.done, report)
        entries: list[OrderEntry] = [
            {"id": order.id, "act": order.act, "address": order.address} for order in orders
        ]
        return Answer(200, {"orders": entries, "down": down})

    async def _is_down(self, node: str) -> bool:
        """Return whether the swarm has lost a node; False if the deploy server does not reply."""
        if self.clock.seconds() - self._listed_at >= LIST_S:
            self._listed_at = self.clock.seconds()
            try:
                machines = await self.deploy.machines()
            except Refusal:
                machines = []
            self._down = frozenset(entry["id"] for entry in machines if entry["state"] == "down")
        return node in self._down

    @routes.row("POST", "/svc/node/check", reply=CheckReply, again=Again.NATURAL, quiet=True)
    async def check(self, call: Call) -> Answer:
        """Return what the agent must check on its node, and start the test of its game ports."""
        if not self._checks.due(call.caller.node, self.clock.seconds()):
            raise TooMany("this node was checked a moment ago; try again later")
        return Answer(200, await self.deploy.begin_check(call.caller.node))

    @routes.row("POST", "/svc/node/changed", reply=Empty, again=Again.NATURAL, quiet=True)
    async def changed(self, call: Call) -> Answer:
        """Make the deploy server update its list, because a game server has started or ended."""
        if self._looks.due(call.caller.node, self.clock.seconds()):
            await self.deploy.refresh_servers()
        return Answer(200, EMPTY_OBJECT)
