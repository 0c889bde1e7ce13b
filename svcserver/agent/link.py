"""The agent's connection to its host; the host sends orders to open or close game ports."""

from __future__ import annotations

from math import inf
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.deploy.docker_api import ReplyBody
from svcserver.edge import allowlist_client
from svcserver.edge.allowlist_client import HelperRefused
from svcserver.kernel import json
from svcserver.kernel.networks import network_of
from svcserver.kernel.secrets import Secret
from svcserver.kernel.system import epoch
from svcserver.kernel.throttle import Throttle

log = Logger()

BASE = "https://host"  # the endpoint decides where to connect
POLL_S = 15.0  # the host holds a poll for five seconds
AGAIN_S = 1.0
CARRY_OUT_S = 5.0  # for the orders of one reply; a slow helper must not delay the next poll
APPLIED_S = 2.0  # a player waits this long for an order
APPLY_LOOK_S = 0.05  # between two looks at a helper that has to change the firewall
KEPT_S = 12 * 3600.0  # since the host's last order for an address
MOST_KEPT = 4_096
FULL = 503  # the helper's status for one address too many
MAX_REPLY = 1024 * 1024  # bytes


@frozen
class HelperState:
    """The helper's list of admitted addresses, and whether the firewall applies this list."""

    addresses: list[str]
    is_applied: bool


@define
class HelperClient:
    """The client for the allowlist helper on the agent's node; ``http`` is a treq client.

    ``is_full`` is True if the helper refused the last address because its list was full.
    """

    http: Any
    clock: IReactorTime
    url: str
    secret: Secret
    is_full: bool = field(default=False, init=False)
    _answers: bool | None = field(default=None, init=False)  # as of the last look

    @property
    def works(self) -> bool | None:
        """True if the helper can admit another address, False if it cannot; None if unknown."""
        return False if self.is_full else self._answers

    async def send(self, act: str, address: str) -> bool:
        """Make the helper open or close the ports for an address; return whether this succeeded."""
        field_name = "ip" if act == "allow" else "network"
        status = 200
        try:
            await allowlist_client.post(
                self.http, self.clock, f"{self.url}/{act}", self.secret, {field_name: address}
            )
        except CancelledError:  # the agent stops
            raise
        except Exception as error:  # refused, cut off or timed out
            status = error.status if isinstance(error, HelperRefused) else 0
            why = "the allowlist has no room for more addresses" if status == FULL else repr(error)
            log.warn("the allowlist helper failed: {why}", why=why)
        if act == "allow":
            self.is_full = status == FULL
            return status == 200
        return status in (200, 400)  # 400: not an address, so that nothing is open

    async def fetch_state(self) -> HelperState | None:
        """Return the state of the helper, or None if it does not answer."""
        head = {"x-allowlist-secret": self.secret.reveal()}
        try:
            reply = await self.http.get(f"{self.url}/status", headers=head).addTimeout(
                allowlist_client.TIMEOUT_S, self.clock
            )
            content = await reply.content().addTimeout(allowlist_client.TIMEOUT_S, self.clock)
            status = json.parse(content)
            addresses = [str(entry["ip"]) for entry in status["entries"]]
            is_changed = (status["lastApply"] or {}).get("ok") is True
            state = HelperState(addresses, is_changed and status["pending"] is False)
            self._answers = is_changed and status["dryRun"] is False
        except CancelledError:
            raise
        except Exception as error:  # refused, cut off, timed out, or no usable answer
            if self._answers is not False:
                log.warn("the allowlist helper failed: {why}", why=repr(error))
            self._answers = False
            return None
        return state

    async def has_applied(self, until: float) -> bool:
        """Wait until the firewall has applied all orders; return False if ``until`` comes first."""
        while self.clock.seconds() < until:
            state = await self.fetch_state()
            if state is not None and state.is_applied:
                return True
            await deferLater(self.clock, APPLY_LOOK_S)
        return False


@define(eq=False)
class HostLink:
    """The client that polls the host for orders; ``http`` is a treq client for the host alone.

    ``contact_at`` is the time of the last contact with the host's machine. A refused connection and
    an error of the server (5xx) count as contact: the machine is reachable, and only the metagame
    or its database is down. A reply that reports this node as lost does not count as contact.
    """

    http: Any
    clock: IReactorTime
    helper: HelperClient | None
    contact_at: float = field(init=False)
    has_image: bool | None = field(default=None, init=False)  # results of checks, for the host
    is_reached: bool | None = field(default=None, init=False)
    _is_read: bool = field(default=False, init=False)  # the helper's addresses are in ``_open``
    _done: list[str] = field(factory=list, init=False)
    _open: dict[str, float] = field(factory=dict, init=False)  # address: time of its last order
    _closing: dict[str, None] = field(factory=dict, init=False)  # networks the helper has to close
    _warnings: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self.contact_at = self.clock.seconds()

    async def run(self) -> None:
        """Poll for orders and carry them out; never return.

        After a restart, the addresses that the helper has admitted stay admitted.
        """
        await self.read_helper()
        while True:
            try:
                orders = await self._poll()
            except Refused:
                self.contact_at = self.clock.seconds()
                await deferLater(self.clock, AGAIN_S)
            except CancelledError:
                raise
            except Exception as error:  # cut off, timed out, or no usable answer
                if self._warnings.due("", self.clock.seconds()):
                    log.warn(
                        "the host does not answer: {why}; the agent tries again", why=repr(error)
                    )
                await deferLater(self.clock, AGAIN_S)
            else:
                await self._carry_out_all(orders)

    async def read_helper(self) -> None:
        """Read the addresses that the helper admits; then retry each failed removal of a network.

        The first call also records these addresses; ``refresh`` reports them.
        """
        if self.helper is None:
            return
        state = await self.helper.fetch_state()
        if state is None:
            return
        if not self._is_read:
            self._is_read, now = True, self.clock.seconds()
            for address in state.addresses[-MOST_KEPT:]:
                self._open.setdefault(address, now)
        for network in list(self._closing):
            if network in self._closing and not await self._close(self.helper, network):
                break

    async def _poll(self) -> list[Any]:
        sent = {
            "done": self._done,
            "helper": self.helper is not None,
            "helper_works": None if self.helper is None else self.helper.works,
            "clock": epoch(),
            "image": self.has_image,
            "reached": self.is_reached,
        }
        status, content = await self._post("/svc/node/orders", sent)
        reply = json.parse(content) if status == 200 else None
        match reply:
            case {"orders": list(orders), **more}:
                self._done = []
                if more.get("down") is not True:
                    self.contact_at = self.clock.seconds()
                return orders
        if status >= 500:
            self.contact_at = self.clock.seconds()
        raise ConnectionError(f"status {status}")

    async def begin_check(self) -> Any:
        """Ask the host what to check, and return the reply.

        Any status but 200 raises ConnectionError; other failures raise their own errors.
        """
        status, content = await self._post("/svc/node/check", {})
        if status != 200:
            raise ConnectionError(f"status {status}")
        return json.parse(content)

    async def _post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        head = {"content-type": "application/json"}
        url, data = f"{BASE}{path}", json.dump(body)
        request = self.http.post(url, data=data, headers=head, unbuffered=True)
        reply = await request.addTimeout(POLL_S, self.clock)
        content = ReplyBody(MAX_REPLY)
        reply.deliverBody(content)
        return int(reply.code), await content.done.addTimeout(POLL_S, self.clock)

    async def _carry_out_all(self, orders: list[Any]) -> None:
        """Carry out orders; acknowledge them only if the firewall applies them in time."""
        now, sent = self.clock.seconds(), []
        for order in orders:
            match order:
                case {
                    "id": str(order_id),
                    "act": "allow" | "withdraw" as act,
                    "address": str(address),
                }:
                    if await self._carry_out(act, address, now + CARRY_OUT_S):
                        sent.append(order_id)
        if sent and self.helper is not None and await self.helper.has_applied(now + APPLIED_S):
            self._done += sent

    async def _carry_out(self, act: str, address: str, deadline: float) -> bool:
        if act == "withdraw":
            self._forget(address)
        else:  # even if the helper fails or is late now: ``refresh`` repeats the call
            self._open.pop(address, None)
            self._open[address] = self.clock.seconds()
            while len(self._open) > MOST_KEPT:
                del self._open[next(iter(self._open))]
        if self.helper is None or self.clock.seconds() >= deadline:
            return False
        if act == "withdraw":
            return await self._close(self.helper, address)
        return await self._allow(self.helper, address, deadline)

    async def _allow(self, helper: HelperClient, address: str, deadline: float) -> bool:
        """Make the helper admit an address; if the helper's list is full, remove old networks."""
        network = network_of(address)
        if network in self._closing and not await self._close(helper, network):
            return False  # the older order to close the network must be carried out first
        while address in self._open:  # a withdrawal may arrive meanwhile
            if await helper.send("allow", address):
                return True
            oldest = network_of(next(iter(self._open), address))
            may_close = address in self._open and oldest != network
            if not helper.is_full or not may_close or self.clock.seconds() >= deadline:
                break
            self._forget(oldest)
            await self._close(helper, oldest)
        return False

    def _forget(self, network: str) -> None:
        """Stop reporting a network's addresses, and note that the helper must remove them."""
        self._is_read = True  # a later reading could bring the addresses back
        for known in [known for known in self._open if network_of(known) == network]:
            del self._open[known]
        self._closing[network] = None
        while len(self._closing) > MOST_KEPT:
            del self._closing[next(iter(self._closing))]

    async def _close(self, helper: HelperClient, network: str) -> bool:
        is_closed = await helper.send("withdraw", network)
        if is_closed:
            self._closing.pop(network, None)
        return is_closed

    async def refresh(self) -> None:
        """Report the players' addresses to the helper again, so that the helper keeps them."""
        await self.read_helper()
        now = self.clock.seconds()
        for address, since in list(self._open.items()):
            if address not in self._open:
                continue  # withdrawn meanwhile
            if now - since > KEPT_S:
                del self._open[address]
            elif self.helper is not None:
                await self._allow(self.helper, address, inf)

    async def report_change(self) -> None:
        """Report to the host that a game server has started or ended; a failure is only logged."""
        try:
            await self._post("/svc/node/changed", {})
        except Exception as error:
            log.debug(
                "the host was not informed that a game server started or ended: {why}",
                why=repr(error),
            )
