"""Asks over loopback how many requests failed, and how many were refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import IService
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from twisted.web.client import Agent, readBody
from twisted.web.http_headers import Headers

from svcserver.kernel import json
from svcserver.kernel.every import Every
from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.system import epoch
from svcserver.stack.alerts.disks import lines
from svcserver.stack.alerts.rules import What
from svcserver.stack.alerts.watching import HostWatch
from svcserver.stack.components import Component, metagame_url

log = Logger()
MINUTE_S = 60.0
ANSWER_S = 5.0
FEWEST, FAILED_SHARE = 20, 0.05  # requests of a minute, and the share of them that may fail
MOST_REFUSED = 600  # a minute: ten a second, which no evening of friends makes
HEALTH = "/svc/api/BackendHealth"
_BEGAN = re.compile(r"(?m)^process_start_time_seconds (\S+)$")
_REFUSED = re.compile(
    r"svc_\w+_(?:refusals|throttled|evicted_connections|failed_logins)_total(?:\{[^}]*\})? (\S+)\Z"
)


def errors_of(said: Any) -> str | None:
    """What is wrong with the last minute's requests, by the health route's answer."""
    match said:
        case {"requests": {"completed": int(all_of), "serverErrors": int(failed)}}:
            if all_of >= FEWEST and failed >= FAILED_SHARE * all_of:
                return f"{failed} of {all_of} requests of the last minute failed (5xx)."
    return None


def refused_in(page: str) -> float:
    """How many were ever refused, by a page of figures; what is no number counts as none."""
    total = 0.0
    for line in page.splitlines():
        found = _REFUSED.match(line)
        if found is not None:
            try:
                total += float(found[1])
            except ValueError:
                continue
    return total


def began_in(page: str) -> str:
    """When the process began that shows this page of figures; empty where it does not say."""
    found = _BEGAN.search(page)
    return found[1] if found else ""


@define(eq=False)
class Facts:
    """What services say of themselves; ``agent`` asks over HTTP, every ``every_s``.

    ``when_new`` is told the name of a component that is another process than at the last look.
    """

    reactor: Any
    agent: Any
    components: Sequence[Component]
    watch: HostWatch
    every_s: float = MINUTE_S
    when_new: Callable[[str], object] = lambda name: None
    _began: dict[str, str] = field(factory=dict, init=False)
    _refused: dict[str, float] = field(factory=dict, init=False)
    _refusing: set[str] = field(factory=set, init=False)  # addresses that do not let us read

    def look(self) -> Deferred[None]:
        """Ask every component for its figures; what is new becomes an alert."""
        return Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        asked = [Deferred.fromCoroutine(self._ask(one)) for one in self.components]
        await DeferredList(asked)

    async def _ask(self, one: Component) -> None:
        """One process's figures; of several metagames each is asked at its own ports."""
        variables, now = {**lines(one.env_file), **one.extra}, self.watch.wall_clock()
        if one.kind == METAGAME:
            await self._errors(one, variables, now)
        port = variables.get("METRICS_PORT", "")
        if not port.isdigit():
            return
        page = await self._get(f"http://127.0.0.1:{port}/metrics")
        if page is not None:
            text = page.decode("utf-8", "replace")
            self._note_process(one.name, began_in(text))
            refused = refused_in(text)
            self.watch.see(What.ATTACK, one.name, self._attack(one.name, refused), now)

    def _note_process(self, name: str, began: str) -> None:
        if began and self._began.setdefault(name, began) != began:
            self._began[name] = began
            self.when_new(name)

    async def _errors(self, one: Component, variables: Mapping[str, str], now: float) -> None:
        owner = {**_key(one.env_file.parent), **_ticket(variables)}
        if not owner:
            return
        said = await self._get(metagame_url(variables) + HEALTH, owner)
        if said is None:
            return
        try:
            wrong = errors_of(json.parse(said))
        except json.BadJson:
            wrong = None
        self.watch.see(What.ERRORS, one.name, wrong, now)

    def _attack(self, name: str, refused: float) -> str | None:
        before = self._refused.get(name)
        self._refused[name] = refused
        fresh = 0.0 if before is None else refused - before  # less than none: it has restarted
        if fresh < MOST_REFUSED * self.every_s / MINUTE_S:
            return None
        return f"It refused {fresh:.0f} requests and connections within {self.every_s:.0f} s."

    async def _get(self, url: str, sent: Mapping[str, str] | None = None) -> bytes | None:
        headers = Headers({name: [value] for name, value in (sent or {}).items()})
        asked = self.agent.request(b"GET", url.encode(), headers)
        try:
            reply = await asked.addTimeout(ANSWER_S, self.reactor)
            body = await readBody(reply).addTimeout(ANSWER_S, self.reactor)
        except Exception as why:  # down, silent or cut: another look is told of that
            log.debug("no figures from {url}: {why}", url=url, why=repr(why))
            return None
        self._note_refusal(url, refused=reply.code in (401, 403))
        return bytes(body) if reply.code == 200 else None

    def _note_refusal(self, url: str, *, refused: bool) -> None:
        """Say once that an alert cannot come: silence would look like a quiet evening."""
        if refused and url not in self._refusing:
            log.warn("{url} is refused to svc-stack: no alert comes of it", url=url)
        (self._refusing.add if refused else self._refusing.discard)(url)


METAGAME = "metagame"


def _key(folder: Path) -> dict[str, str]:
    try:
        key = (folder / "owner.key").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return {}
    return {ACCOUNT_KEY.decode(): key} if key else {}


def _ticket(metagame: Mapping[str, str]) -> dict[str, str]:
    secret = metagame.get(SIGNING_KEY, "")
    return machine_headers(secret, "svc-stack", "GET", HEALTH, epoch())


def facts_rounds(facts: Facts) -> IService:
    """The service that asks as often as it should."""
    return Every(facts.reactor, facts.every_s, facts.look, "asking services for their figures")


def asking(reactor: Any) -> Agent:
    """What asks services on this machine."""
    return Agent(reactor, connectTimeout=ANSWER_S)
