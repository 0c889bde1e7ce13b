"""The relay's policy for the proxy core: the accepted requests, the upstream, and the log line."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.edge.verdicts import Forward, Limits, Record, Refuse, Verdict
from svcserver.http.crosssite import LOOPBACK_HOST, LOOPBACK_ORIGIN, is_loopback
from svcserver.http.heads import Fault, Header, RequestHead
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.redaction import redact_bytes


# The relay refuses requests that the local game did not send. Its rules are stricter than those of
# ``http.crosssite``, because the game is not a browser, and uses one of three names for loopback.
# Spec: 2 §4 Launcher relay.
def _forbidden(reason: str) -> Refuse:
    return Refuse(403, "forbidden", reason)


def _bad_request(reason: str) -> Refuse:
    return Refuse(400, "bad_request", reason, close=True)


def of_fields(headers: Sequence[Header], upgrade: bytes, own: bytes) -> Refuse | None:
    """Return the refusal for a request's header fields, or None if they are acceptable.

    ``own`` is the loopback address that the relay listens on.
    """
    hosts, origins, fetched = _origin_fields(headers)
    if len(hosts) != 1 or not (LOOPBACK_HOST.fullmatch(hosts[0]) or _is_own(hosts[0], own)):
        return _forbidden("host")
    if not all(LOOPBACK_ORIGIN.fullmatch(origin) for origin in origins):
        return _forbidden("origin")
    return _forbidden("sec_fetch") if fetched and not upgrade else None


def _is_own(host: bytes, own: bytes) -> bool:
    address, _, port = host.partition(b":")
    return address == own and (not port or port.isdigit())


def refusal(head: RequestHead, peer: str, fields: Refuse | None, *, plain: bool) -> Refuse | None:
    """Return the refusal for a request, or None; ``fields`` is the result of ``of_fields``."""
    if not is_loopback(peer):
        return _forbidden("peer")
    if fields is not None:
        return fields
    if not head.target.startswith(b"/"):
        return _bad_request("target")
    if head.upgrade and (head.upgrade != b"websocket" or head.method != b"GET"):
        return _bad_request("upgrade")
    if not plain:
        return _bad_request("target")
    return _bad_request("upgrade") if head.upgrade and head.has_body else None


def _origin_fields(headers: Sequence[Header]) -> tuple[list[bytes], list[bytes], bool]:
    """Return the Host values, the Origin values, and whether there is a Sec-Fetch field."""
    hosts: list[bytes] = []
    origins: list[bytes] = []
    fetched = False
    for _, name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"origin":
            origins.append(value)
        elif name.startswith(b"sec-fetch-"):
            fetched = True
    return hosts, origins, fetched


log = Logger()

LIMITS = Limits(request_s=86_400.0, upstream_idle_s=600.0, idle_s=600.0, tunnel_idle_s=3_600.0)


@define(eq=False)
class RelayFieldNotes:
    """The cached result of ``of_fields`` for one set of header fields and one relay address."""

    own: bytes  # the address of the relay
    refuse: Refuse | None


@define(eq=False)
class RelayLineNotes:
    """The relay's cached facts about a request line."""

    plain: bool  # True if the target is a path that may be forwarded
    shown: str  # method and target, for the log


def notes_of(head: RequestHead, own: bytes) -> tuple[RelayFieldNotes, RelayLineNotes]:
    """Return the cached facts about a request; compute them if they are not cached."""
    fields, line = head.block.noted, head.line.noted
    # in a simulation the gateway stores its facts here too
    if type(fields) is not RelayFieldNotes or fields.own != own:
        refuse = of_fields(head.headers, head.upgrade, own)
        fields = head.block.noted = RelayFieldNotes(own, refuse)
    if type(line) is not RelayLineNotes:
        shown = f"{head.method[:32].decode('latin-1')} {redact_bytes(head.target)}"
        line = head.line.noted = RelayLineNotes(head.is_plain, shown)
    return fields, line


def logged(text: str) -> None:
    """Write a request's log line with Twisted's logger."""
    log.info("{text}", text=text)


@define(eq=False, slots=False)
class Relay:
    """The relay's ``ProxyPolicy``, which forwards the game's requests to the gateway unchanged."""

    upstream: Any
    limits: Limits = LIMITS
    say: Callable[[str], None] = logged  # writes a request's log line
    counters: Counters = field(factory=Counters)
    dropped: frozenset[bytes] = frozenset()
    hidden: frozenset[bytes] = frozenset()
    repeats: bool = False  # the gateway repeats requests itself
    own: bytes = b"127.0.0.1"  # the address that the relay listens on
    added: bytes = b""  # header lines that each forwarded request gets

    def judge(self, head: RequestHead, peer: str) -> Verdict:
        fields, line = notes_of(head, self.own)
        refuse = refusal(head, peer, fields.refuse, plain=line.plain)
        if refuse is not None:
            return refuse
        return Forward(self.upstream, "gateway", self.added, bool(head.upgrade))

    def wrong(self, fault: Fault) -> Refuse:
        if fault.kind == "transfer encoding":
            return Refuse(501, "unsupported_transfer_encoding", fault.kind, close=True)
        if fault.kind == "host":
            return Refuse(403, "forbidden", fault.kind, close=True)
        return Refuse(fault.status, fault.code, fault.kind, close=True)

    def describe_failure(self, cause: str, answered: bool) -> tuple[int, str, str]:
        return 502, "upstream_unreachable", cause

    def done(self, record: Record) -> None:
        if record.reason and 400 <= record.status < 500:
            self.counters.add(Counted.REFUSALS, record.reason)
        head = record.head
        request = notes_of(head, self.own)[1].shown if head is not None else " "
        ms = round((record.ended - record.began) * 1000)
        how = " aborted" if record.aborted else ""
        self.say(f"{request} {record.status} {ms} ms {record.reason}{how}")
