"""The poller that asks services for the numbers of their failed and refused requests."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.web.client import readBody
from twisted.web.http_headers import Headers

from svcserver.kernel import json
from svcserver.kernel.alert_settings import AlertKind
from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.system import epoch
from svcserver.stack.alerts.disks import read_or_empty
from svcserver.stack.alerts.watching import HostWatch
from svcserver.stack.components import Component, metagame_url

log = Logger()
MINUTE_S = 60.0
ANSWER_S = 5.0
FEWEST, FAILED_SHARE = 20, 0.05  # requests in a minute, and the share that may fail
MOST_REFUSED = 600  # refused requests per minute; a few players never cause so many
HEALTH = "/svc/api/BackendHealth"
MACHINES = "/svc/api/DashboardMachines"
METAGAME = "metagame"
LOST_STATES = ("down", "disconnected")  # states of a machine
NODE_LOST = "Its hunts have ended. Start Docker there, and check the network between the machines."
AGENT_AWAY = "Its game servers cannot reach the metagame. Run svcctl doctor."
_STARTED = re.compile(r"(?m)^process_start_time_seconds (\S+)$")
_OPEN_FILES = re.compile(r"(?m)^process_open_fds (\S+)$")
_MOST_FILES = re.compile(r"(?m)^process_max_fds (\S+)$")
_REFUSED = re.compile(
    r"svc_\w+_(?:refusals|throttled|evicted_connections|failed_logins)_total(?:\{[^}]*\})? (\S+)\Z"
)
_SHORTAGES = re.compile(r"(?m)^svc_deploy_memory_shortages_total (\S+)$")


def errors_in(health: Any) -> str | None:
    """Return a fault if the health reply shows that too many requests failed in the last minute."""
    match health:
        case {"requests": {"completed": int(total), "serverErrors": int(failed)}}:
            if total >= FEWEST and failed >= FAILED_SHARE * total:
                return f"{failed} of {total} requests of the last minute failed (5xx)."
    return None


def refused_in(page: str) -> float:
    """Return the number of requests that a service has refused, from the service's metrics page."""
    total = 0.0
    for line in page.splitlines():
        match = _REFUSED.match(line)
        if match is not None:
            with suppress(ValueError):  # not a number
                total += float(match[1])
    return total


def machine_faults(reply: Any) -> dict[tuple[AlertKind, str], str | None]:
    """Map (kind, machine) to the fault of the machine or of its agent; None means no fault."""
    faults: dict[tuple[AlertKind, str], str | None] = {}
    match reply:
        case {"machines": list(machines)}:
            for machine in machines:
                subject = f"{machine['name']} ({machine['address']})"
                is_lost, is_away = machine["state"] in LOST_STATES, machine.get("agent") == "away"
                node_fault = NODE_LOST if is_lost else None
                agent_fault = AGENT_AWAY if is_away and not is_lost else None
                for kind, fault in ((AlertKind.NODE, node_fault), (AlertKind.AGENT, agent_fault)):
                    # two machines may have the same subject: the first fault is kept
                    faults[kind, subject] = faults.get((kind, subject)) or fault
    return faults


def _has_unknown(reply: Any) -> bool:
    match reply:
        case {"machines": list(machines)}:
            return any(machine["state"] == "unknown" for machine in machines)
    return False


@define(eq=False)
class MetricsPoller:
    """A poller of the services' metrics; two polls are ``every_s`` seconds apart.

    ``on_restart`` is called with a component's name when the component runs as a new process. When
    the poller first sees a process, it calls ``on_process`` with the component's name and the
    process's start time (epoch s).
    """

    reactor: Any
    agent: Any
    components: Sequence[Component]
    watch: HostWatch
    every_s: float = MINUTE_S
    on_restart: Callable[[str], object] = lambda name: None
    on_process: Callable[[str, float], object] = lambda name, since: None
    _start_times: dict[str, str] = field(factory=dict, init=False)
    _refused: dict[str, float] = field(factory=dict, init=False)
    _shortages: dict[str, float] = field(factory=dict, init=False)
    _refusing: set[str] = field(factory=set, init=False)  # URLs that refuse svc-stack
    _machines: dict[tuple[AlertKind, str], str | None] = field(factory=dict, init=False)

    def poll(self) -> Deferred[None]:
        """Poll every component and report faults."""
        polls = [Deferred.fromCoroutine(self._poll(component)) for component in self.components]
        return DeferredList(polls).addCallback(lambda _: None)

    async def _poll(self, component: Component) -> None:
        """Poll one component and report its faults."""
        name, now = component.name, self.watch.wall_clock()
        variables = {**read_or_empty(component.env_file), **component.extra}
        if component.kind == METAGAME:
            await self._check_errors(component, variables, now)
        if component is self._first_metagame():
            await self._check_machines(component, variables, now)
        port = variables.get("METRICS_PORT", "")
        if not port.isdigit():
            return
        page = await self._get(f"http://127.0.0.1:{port}/metrics")
        if page is not None:
            text = page.decode("utf-8", "replace")
            self._check_restart(name, text)
            self._note_files(name, text)
            self.watch.report(AlertKind.ATTACK, name, self._attack(name, refused_in(text)), now)
            if (match := _SHORTAGES.search(text)) is not None:
                wrong = self._shortage(name, float(match[1]))
                self.watch.report(AlertKind.MEMORY, name, wrong, now)

    def _check_restart(self, name: str, page: str) -> None:
        match = _STARTED.search(page)
        previous = self._start_times.get(name)
        if match is None or match[1] == previous:
            return
        self._start_times[name] = match[1]
        if previous is not None:
            self.on_restart(name)
        with suppress(ValueError):  # not a number
            self.on_process(name, float(match[1]))

    def _note_files(self, name: str, page: str) -> None:
        matches = [pattern.search(page) for pattern in (_OPEN_FILES, _MOST_FILES)]
        with suppress(ValueError, OverflowError):
            files, most = (int(float(match[1])) for match in matches if match is not None)
            self.watch.open_files[name] = files, most

    async def _check_errors(
        self, component: Component, variables: Mapping[str, str], now: float
    ) -> None:
        health = await self._fetch_json(component, variables, HEALTH)
        if health is not None:
            self.watch.report(AlertKind.ERRORS, component.name, errors_in(health), now)

    async def _check_machines(
        self, component: Component, variables: Mapping[str, str], now: float
    ) -> None:
        """Report lost machines of a swarm, and machines that do not reach the metagame."""
        deploy = read_or_empty(component.env_file.parent / "deploy.env")
        if deploy.get("GAMESERVER_ENGINE") != "swarm":
            return
        reply = await self._fetch_json(component, variables, MACHINES)
        if reply is None or _has_unknown(reply):  # the deploy server has lost Docker
            return
        faults = machine_faults(reply)
        for key in {*self._machines, *faults}:  # also machines that were removed
            wrong = faults.get(key)
            if wrong == AGENT_AWAY and self._machines.get(key) is None:
                continue  # a restart takes less time than the interval
            self.watch.report(*key, wrong, now)
        self._machines = faults

    def _first_metagame(self) -> Component | None:
        return next((each for each in self.components if each.kind == METAGAME), None)

    async def _fetch_json(
        self, component: Component, variables: Mapping[str, str], path: str
    ) -> Any | None:
        """Return the JSON of the metagame's reply, or None without a usable reply."""
        headers = {**_key(component.env_file.parent), **_ticket(variables, path)}
        if not headers:
            return None
        body = await self._get(metagame_url(variables) + path, headers)
        try:
            return None if body is None else json.parse(body)
        except json.BadJson:
            return None

    def _shortage(self, name: str, total: float) -> str | None:
        recent = total - self._shortages.get(name, total)  # negative after a restart
        self._shortages[name] = total
        if recent <= 0:
            return None
        return (
            f"It refused {recent:.0f} launches because no machine had enough free memory. Add a "
            "machine, or memory; svcctl capacity shows what is left."
        )

    def _attack(self, name: str, refused: float) -> str | None:
        previous = self._refused.get(name)
        self._refused[name] = refused
        recent = 0.0 if previous is None else refused - previous  # negative after a restart
        if recent < MOST_REFUSED * self.every_s / MINUTE_S:
            return None
        return f"It refused {recent:.0f} requests and connections within {self.every_s:.0f} s."

    async def _get(self, url: str, fields: Mapping[str, str] | None = None) -> bytes | None:
        headers = Headers({name: [value] for name, value in (fields or {}).items()})
        request = self.agent.request(b"GET", url.encode(), headers)
        try:
            reply = await request.addTimeout(ANSWER_S, self.reactor)
            body = await readBody(reply).addTimeout(ANSWER_S, self.reactor)
        except Exception as error:  # another check reports a component that does not reply
            log.debug("no metrics from {url}: {why}", url=url, why=repr(error))
            return None
        self._warn_if_refused(url, refused=reply.code in (401, 403))
        return bytes(body) if reply.code == 200 else None

    def _warn_if_refused(self, url: str, *, refused: bool) -> None:
        """Log once that a component refuses our requests to ``url``.

        Otherwise the component would seem healthy, because a refusal causes no alert.
        """
        if refused and url not in self._refusing:
            log.warn(
                "svc-stack cannot read {url}, because the server refuses the requests. Until "
                "svc-stack can read {url} again, you get no alerts for faults that only {url} "
                "reports.",
                url=url,
            )
        (self._refusing.add if refused else self._refusing.discard)(url)


def _key(folder: Path) -> dict[str, str]:
    try:
        key = (folder / "owner.key").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return {}
    return {ACCOUNT_KEY.decode(): key} if key else {}


def _ticket(metagame: Mapping[str, str], path: str) -> dict[str, str]:
    secret = metagame.get(SIGNING_KEY, "")
    return machine_headers(secret, "svc-stack", "GET", path, epoch())
