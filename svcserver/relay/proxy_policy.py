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


@define(eq=False)
class FieldNotes:
    """What the relay makes of a request's fields, once for all requests with the same."""

    no: guard.Denial | None


@define(eq=False)
class LineNotes:
    """The same of a request's line."""

    plain: bool  # the target is a path that may be passed on
    shown: str  # method and target, for the log


def notes_of(head: RequestHead) -> tuple[FieldNotes, LineNotes]:
    """What was noted of this head's parts, or is now."""
    fields, line = head.block.noted, head.line.noted
    if type(fields) is not FieldNotes:  # in a simulation the gateway has notes there, too
        fields = head.block.noted = FieldNotes(guard.of_fields(head.headers, head.upgrade))
    if type(line) is not LineNotes:
        shown = f"{head.method[:32].decode('latin-1')} {redact_bytes(head.target)}"
        line = head.line.noted = LineNotes(head.is_plain, shown)
    return fields, line


def logged(text: str) -> None:
    """Write a request's line by the logger: for programs that run a relay beside other things."""
    log.info("{text}", text=text)


@define(eq=False, slots=False)
class Relay:
    """The relay's ``ProxyPolicy``: passes the game's requests to the gateway unchanged."""

    upstream: Any
    limits: Limits = LIMITS
    say: Callable[[str], None] = logged  # writes a request's line
    counters: Counters = field(factory=Counters)
    dropped: frozenset[bytes] = frozenset()
    hidden: frozenset[bytes] = frozenset()
    repeats: bool = False  # the gateway does, and knows more

    def judge(self, head: RequestHead, peer: str) -> Verdict:
        fields, line = notes_of(head)
        no = guard.refusal(peer, head.method, head.target, head.upgrade, fields.no)
        if no is None and not line.plain:
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
        asked = notes_of(head)[1].shown if head is not None else " "
        ms = round((record.ended - record.began) * 1000)
        how = " aborted" if record.aborted else ""
        self.say(f"{asked} {record.status} {ms} ms {record.reason}{how}")
