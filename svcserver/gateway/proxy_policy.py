"""The gateway's policy for the proxy core: routing, rate limits, headers, feed, log line."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from sys import intern
from typing import Any

from attrs import define, field
from OpenSSL import SSL
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.spread import Spread
from svcserver.edge.verdicts import Forward, Limits, Record, Refuse, Verdict
from svcserver.gateway import policy
from svcserver.gateway.feed import AllowlistFeed
from svcserver.gateway.join_page import PATH as JOIN
from svcserver.gateway.join_page import JoinPages
from svcserver.gateway.limits import ConnectionCounts, Spending
from svcserver.gateway.policy import Route
from svcserver.http.heads import Fault, RequestHead
from svcserver.kernel import json
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.headers import ATTEMPT, GAME_SERVER_KEY, GATEWAY, REQUEST_ID
from svcserver.kernel.networks import network_of
from svcserver.kernel.redaction import redact_bytes
from svcserver.kernel.secrets import Secret
from svcserver.kernel.system import token_hex
from svcserver.kernel.throttle import LogSampler, Throttle

log = Logger()

FORWARDING = frozenset(
    [
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"forwarded",
        b"x-real-ip",
        b"x-client-ip",
        b"true-client-ip",
        b"cf-connecting-ip",
        GATEWAY,
        REQUEST_ID,
        ATTEMPT,
    ]
)
CHANGING = frozenset([b"POST", b"PUT", b"PATCH", b"DELETE"])
_REQUEST_ID = b"X-Svc-Request-Id: %b\r\n"
HIDDEN = frozenset([b"x-powered-by", GATEWAY])
_WS = Route.WS  # Enum member look-up is slow Python code


@define(eq=False)
class FieldNotes:
    """The gateway's cached facts about header fields, shared by requests with equal fields."""

    keyed: bool  # the fields contain a game server's key
    agent: str  # for the log, as JSON


@define(eq=False)
class LineNotes:
    """The gateway's cached facts about a request line."""

    ruling: policy.Decision  # valid if the request has neither an upgrade nor a key
    target: str  # for the log, as JSON


def notes_of(head: RequestHead) -> tuple[FieldNotes, LineNotes]:
    """Return the facts about the header fields and the request line, cached if possible."""
    fields, line = head.block.noted, head.line.noted
    if type(fields) is not FieldNotes:  # in a simulation a relay stores its facts here too
        agents = head.values(b"user-agent")
        agent = json.quoted(redact_bytes(agents[0]) if agents else "")
        fields = FieldNotes(GAME_SERVER_KEY in head.fields, intern(agent))
        head.block.noted = fields
    if type(line) is not LineNotes:
        method, target = head.method, head.target
        ruling = policy.rule(method, target, upgrade=b"", has_body=False, gameserver_key=False)
        line = head.line.noted = LineNotes(ruling, json.quoted(redact_bytes(target)))
    return fields, line


def _logged(message: str, members: str) -> None:
    log.info(message, **json.parse_deep(f"{{{members}}}"))


@define(eq=False, slots=False)
class Gateway:
    """The gateway's ``ProxyPolicy``: its decisions on connections and requests."""

    clock: IReactorTime
    limits: Limits
    spending: Spending
    counts: ConnectionCounts
    upstreams: Mapping[Route, Any]
    secret: Secret
    feed: AllowlistFeed | None = None
    # writes a request's log line; see ``JsonLines.write_info_line``
    say: Callable[[str, str], None] = _logged
    dropped: frozenset[bytes] = FORWARDING | {b"expect"}
    hidden: frozenset[bytes] = HIDDEN
    repeats: bool = True
    counters: Counters = field(factory=Counters, kw_only=True)
    pages: JoinPages | None = field(default=None, kw_only=True)  # the answer to GET /join
    spread: bool = field(default=False, init=False)  # True if any upstream has several processes
    answered: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)
    _throttle: Throttle = field(factory=Throttle, init=False)
    _refusal_lines: LogSampler = field(factory=LogSampler, init=False)

    def __attrs_post_init__(self) -> None:
        self.spread = any(isinstance(upstream, Spread) for upstream in self.upstreams.values())

    def admit(self, peer: str) -> bool:
        """Count a new connection; return False to close the connection without an answer."""
        now = self.clock.seconds()
        reason = self.counts.enter(peer, now)
        if reason:
            self.counters.add(Counted.REFUSALS, reason)
        network = network_of(peer)
        if reason and self._throttle.due(network, now) and self._refusal_lines.keeps(network, now):
            log.info("connection refused", ip=peer, reason=reason)
        return not reason

    def evicted(self, waited_for: str) -> bool:
        """Count a connection that was closed to make room; return False if none was closed.

        ``waited_for`` is the result of ``ChannelFactory.evict``: the connection's metrics label, or
        "" if no connection was closed.
        """
        if not waited_for:
            return False
        self.counters.add(Counted.EVICTED_CONNECTIONS, waited_for)
        if self._throttle.due("evicted", self.clock.seconds()):
            log.info(
                "the gateway is full: idle connections are closed",
                connections=self.counts.most,
            )
        return True

    def left(self, peer: str, reason: Failure) -> None:
        """Subtract a closed connection from the connection counts."""
        self.counts.leave(peer)
        now = self.clock.seconds()
        if reason.check(SSL.Error) and self._throttle.due(("tls", network_of(peer)), now):
            log.debug("TLS failed", ip=peer, why=str(reason.value))

    def judge(self, head: RequestHead, peer: str) -> Verdict:
        """Apply the rules and rate limits to a request; return whether to refuse or forward it.

        The checks are steps 4 and 5 of the specification. Spec: 2 §4 Gateway.
        """
        fields, line = notes_of(head)
        ruling = line.ruling
        if fields.keyed or head.upgrade:
            ruling = policy.rule(
                head.method,
                head.target,
                upgrade=head.upgrade,
                has_body=head.length != 0,
                gameserver_key=fields.keyed,
            )
        wait_s = self.spending.take(ruling.bucket, peer, self.clock.seconds())
        if wait_s:
            reason = f"rate_limited:{ruling.bucket.value}"
            return Refuse(429, "rate_limited", reason, retry_after_s=wait_s)
        if ruling.refuse is not None:
            return ruling.refuse
        if self.pages is not None and ruling.path == JOIN and head.method in (b"GET", b"HEAD"):
            return Refuse(200, "", page=self.pages.page_for(head.values(b"user-agent")))
        reports = (
            self.feed is not None
            and head.method == b"POST"
            and policy.earns_ports(ruling, head.method, head.values(b"authorization"))
        )
        upstream = self.upstreams[ruling.route]
        if self.spread and isinstance(upstream, Spread):
            tokens = head.values(b"authorization")
            upstream = upstream.near(tokens[0]) if tokens else upstream
        added, changes = _added(peer, self.secret), head.method in CHANGING
        if changes:
            added += _REQUEST_ID % token_hex(16).encode()
        return Forward(
            upstream,
            str(ruling.route),  # not ``.value``, which Enum looks up in slow Python
            added,
            tunnel=ruling.route is _WS,
            on_answer=partial(self._answered, peer) if reports else None,
            repeatable=changes,
        )

    def _answered(self, peer: str, status: int) -> None:
        if self.feed is None:
            return
        if 200 <= status < 300:
            self.feed.report(peer)
        elif status == 401:
            self.feed.report_again(peer)

    def wrong(self, fault: Fault) -> Refuse:
        return Refuse(fault.status, fault.code, fault.code, close=True)

    def describe_failure(self, cause: str, answered: bool) -> tuple[int, str, str]:
        if cause == "silent":
            return 504, "upstream_timeout", "upstream_timeout"
        return 502, "bad_gateway", f"upstream_{cause}"

    def done(self, record: Record) -> None:
        self.answered += 1
        if record.tries > 1:
            self._note_repeat(record)
        time_request = self.counters.time_request
        if time_request is not None and not (record.aborted or record.tunnel):
            time_request(record.route or "gateway", record.status, record.ended - record.began)
        if record.reason and 400 <= record.status < 500:
            self._count_refusal(record)
            if not self._refusal_lines.keeps(network_of(record.peer), record.ended):
                self.counters.add(Counted.DROPPED_LOG_LINES, "refusals")
                return
        line = _members(record)
        if self._refusal_lines.omitted:
            omitted = self._refusal_lines.take_omitted()
            line += f',"omitted":{omitted}'
        self.say("websocket closed" if record.tunnel else "request", line)

    def _note_repeat(self, record: Record) -> None:
        """Count a retried request; log at most one line a minute for each route and outcome."""
        fate = "gone" if record.aborted else "lost" if record.reason else "answered"
        self.counters.add(Counted.REPEATED, f"{record.route}:{fate}")
        if record.head is not None and self._throttle.due(
            ("repeated", record.route, fate), self.clock.seconds()
        ):
            log.info(
                "a request was sent again, because its upstream had ended: {fate}",
                fate=fate,
                method=record.head.method.decode("latin-1"),
                target=redact_bytes(record.head.target),
                route=record.route,
                tries=record.tries,
                status=record.status,
            )

    def _count_refusal(self, record: Record) -> None:
        self.refused += 1
        self.counters.add(Counted.REFUSALS, record.reason)
        if record.status == 429:
            self.counters.add(Counted.THROTTLED, record.reason.partition(":")[2])


def _members(record: Record) -> str:
    """Return the log line of a request as JSON, without the outer braces."""
    head = record.head
    method = target = agent = '""'
    if head is not None:
        fields, first = notes_of(head)
        method, target, agent = _method(head.method), first.target, fields.agent
    line = (
        f'"ip":{_peer(record.peer)},"method":{method},"target":{target},'
        f'"route":"{record.route or "gateway"}","status":{record.status},'
        f'"bytesIn":{record.bytes_in},"bytesOut":{record.bytes_out},'
        f'"ms":{round((record.ended - record.began) * 1000)},"ua":{agent}'
    )
    if record.reason:
        line += f',"reason":{json.quoted(record.reason)}'
    if record.aborted:
        line += ',"aborted":true'
    if record.tries > 1:
        line += f',"tries":{record.tries}'
    return line


_peer = lru_cache(maxsize=4096)(json.quoted)


@lru_cache(maxsize=256)
def _method(raw: bytes) -> str:
    return json.quoted(raw[:32].decode("latin-1"))


@lru_cache(maxsize=4096)
def _added(peer: str, secret: Secret) -> bytes:
    """Return the header lines that only the gateway writes."""
    return b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: https\r\nX-Svc-Gateway: %b\r\n" % (
        peer.encode("ascii", "replace"),
        secret.reveal().encode("ascii"),
    )
