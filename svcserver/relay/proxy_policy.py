"""The relay's policy for the proxy core: the guard, its upstream, the log line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.edge.verdicts import Forward, Limits, Record, Refuse, Verdict
from svcserver.http.heads import Fault, RequestHead
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.redaction import redact_bytes
from svcserver.relay import guard

log = Logger()

LIMITS = Limits(request_s=86_400.0, upstream_idle_s=600.0, idle_s=600.0, tunnel_idle_s=3_600.0)


def _logged(text: str) -> None:
    log.info("{text}", text=text)


@define(eq=False, slots=False)
class Relay:
    """The relay's ``ProxyPolicy``: passes the game's requests to the gateway unchanged."""

    upstream: Any
    limits: Limits = LIMITS
    say: Callable[[str], None] = _logged  # writes a request's line
    counters: Counters = field(factory=Counters)
    dropped: frozenset[bytes] = frozenset([b"expect"])  # answered here
    hidden: frozenset[bytes] = frozenset()
    repeats: bool = False  # the gateway does, and knows more

    def judge(self, head: RequestHead, peer: str) -> Verdict:
        no = guard.refusal(
            peer, head.target, upgrade=head.upgrade, method=head.method, headers=head.headers
        )
        if no is None and not head.is_plain:
            no = guard.Denial(400, "bad_request", "target")
        if no is None and head.upgrade and head.has_body:
            no = guard.Denial(400, "bad_request", "upgrade")
        if no is not None:
            return Refuse(no.status, no.code, no.reason, close=no.status == 400)
        return Forward(self.upstream, "gateway", tunnel=bool(head.upgrade))

    def wrong(self, fault: Fault) -> Refuse:
        if fault.kind == "transfer encoding":
            return Refuse(501, "unsupported_transfer_encoding", fault.kind, close=True)
        if fault.kind == "host":
            return Refuse(403, "forbidden", fault.kind, close=True)
        return Refuse(fault.status, fault.code, fault.kind, close=True)

    def lost(self, why: str, answered: bool) -> tuple[int, str, str]:
        return 502, "upstream_unreachable", why

    def done(self, record: Record) -> None:
        if record.reason and 400 <= record.status < 500:
            self.counters.add(Counted.REFUSALS, record.reason)
        head = record.head
        method = head.method[:32].decode("latin-1") if head is not None else ""
        target = redact_bytes(head.target) if head is not None else ""
        ms = round((record.ended - record.began) * 1000)
        how = " aborted" if record.aborted else ""
        self.say(f"{method} {target} {record.status} {ms} ms {record.reason}{how}")
