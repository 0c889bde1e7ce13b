"""An exchange: one request that is forwarded to an upstream, and the upstream's answer.

No body is buffered: when one side reads too slowly, the proxy stops reading from the other side.
The proxy replaces the framing headers of each message with its own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from attrs import define
from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.retry import Retry
from svcserver.edge.upstream import UpstreamConnection
from svcserver.edge.verdicts import Forward, Limits, ProxyPolicy, Record, Refuse, Unreachable
from svcserver.edge.wording import answer_head, request_head
from svcserver.http.bodies import Body, CountedBody, body_of
from svcserver.http.connection import ANSWERING, CONTINUE, Connection
from svcserver.http.heads import (
    MAX_RESPONSE_HEAD,
    Fault,
    RequestHead,
    ResponseHead,
    find_end,
    read_response,
)
from svcserver.http.prompt import send
from svcserver.kernel.buggify import buggify

log = Logger()

EXPECT_S = 10.0  # how long a client waits for 100 before it sends its body anyway
LAST_CHUNK = b"0\r\n\r\n"
NO_BODY = CountedBody(0)  # one shared object, because it has no state
_RETRY_AFTER = frozenset([b"retry-after"])


def chunk(data: bytes) -> bytes:
    """Return non-empty ``data`` as one chunk; an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Client(Connection):
    """A client connection; each request becomes an ``Exchange``."""

    policy: ProxyPolicy
    limits: Limits

    @abstractmethod
    def finish(self, exchange: Exchange, *, close: bool) -> None:
        """Log a request whose answer has been sent.

        Then close the connection if ``close`` is True, else read the next request.
        """

    @abstractmethod
    def refuse(self, refuse: Refuse, record: Record) -> None:
        """Send the proxy's own error answer instead of the upstream's answer."""


@implementer(IPushProducer)
@define(eq=False, slots=False)
class ClientProducer:
    """The client as a producer, which the upstream's transport pauses and resumes."""

    client: Client

    def pauseProducing(self) -> None:
        """Stop reading the request, because the upstream reads too slowly."""
        self.client.hold("upstream")

    def resumeProducing(self) -> None:
        self.client.release("upstream")

    def stopProducing(self) -> None:
        """Do nothing: the upstream connection itself reports its loss."""


class Exchange:
    """A client's request and the upstream connection that answers it."""

    def __init__(self, client: Client, head: RequestHead, forward: Forward, record: Record) -> None:
        # set here, not as class defaults, whose look-up is ten times slower
        self.client, self.head, self.forward, self.record = client, head, forward, record
        self.body: Body = NO_BODY if head.length == 0 else body_of(head.length)
        self.tunnelling = self.ended = False
        self.answered = False  # the client has received the answer's head
        self.moved = True  # bytes have moved since the last sweep
        self.connection: Any = None  # the upstream connection that has received the request head
        self._answer: ResponseHead | None = None
        self._reply: Body | None = None
        self._raw = b""
        self._searched = 0  # bytes of ``_raw`` already searched for the end of the head
        self._framed = False  # the body goes to the client in chunks
        self._close = self._held = False
        self._producer: ClientProducer | None = None
        self._last_moved = 0.0
        self._retry = Retry(head, forward, record)
        # when the client began to wait for 100 Continue
        self.expects = client.factory.clock.seconds() if head.expects and head.has_body else None

    # -- towards the upstream --------------------------------------------------

    def start(self, *, fresh: bool = False) -> None:
        """Take an upstream connection and send the request head."""
        connection = self.forward.upstream.take(fresh=fresh)
        if isinstance(connection, UpstreamConnection):  # an isinstance check for Deferred is slow
            self._connected(connection)
        else:
            connection.addCallbacks(self._connected, self._unreachable)
            connection.addErrback(self._broken)

    def _connected(self, connection: Any) -> None:
        if self.ended:  # an unused connection could get a 408 just when it is needed
            connection.abort()
            return
        self.connection, connection.user = connection, self
        retry, policy = self._retry, self.client.policy
        head = request_head(self.head, self.forward, policy, attempt=retry.count())
        send(connection.transport, b"".join((head, retry.body)) if retry.body else head)
        self.moved = True
        if b"expect" in policy.dropped:  # else the upstream answers Expect
            self._continue()
        if buggify("edge: a connection ends in the middle of a request"):
            connection.transport.abortConnection()
        if self.body.done:
            self.client.await_answer()
        else:
            self.client.receive()

    def _unreachable(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, Unreachable):
            self._broken(failure)
        elif not self.ended:
            self._wait(error)

    def _wait(self, error: Unreachable) -> None:
        waiting = self._retry.wait(error, self.client.factory.clock.seconds())
        waiting.addCallbacks(self._start_again, self._not_reached)
        waiting.addErrback(self._broken)

    def _start_again(self, _: object) -> None:
        if not self.ended:
            self.start()

    def _not_reached(self, failure: Failure) -> None:
        if self.ended and failure.check(CancelledError):
            return
        error = failure.value
        if not isinstance(error, Unreachable):
            failure.raiseException()
        elif self._retry.may_be_done or (self.record.tries > 1 and error.retry_after_s is None):
            self.fail("reset")
        elif not self.ended:
            reason = f"upstream_{error.code.removeprefix('upstream_')}"
            self._refuse(error.status, error.code, reason, error.retry_after_s)

    def _broken(self, failure: Failure) -> None:
        log.failure("a request could not be forwarded", failure)
        self.client.cut()

    def _continue(self) -> None:
        """Send ``100 Continue`` to a client that waits for it."""
        if self.expects is not None:
            self.expects = None
            send(self.client.transport, CONTINUE)

    def client_received(self, data: bytes) -> bytes:
        """Forward bytes of the body or tunnel; return the bytes after the body. Raises Fault."""
        self.moved, self.expects = True, None
        if self.tunnelling:
            self.record.bytes_in += len(data)
            send(self.connection.transport, data)
            return b""
        part, rest = self.body.feed(data)
        self.record.bytes_in += len(part)
        limit = self.client.limits.max_body
        if limit is not None and self.record.bytes_in > limit:
            raise Fault("body_too_large", 413, "body_too_large")
        if self.head.length is None:
            part = (chunk(part) if part else b"") + (LAST_CHUNK if self.body.done else b"")
        if part:
            send(self.connection.transport, part)
            self._retry.keep(part)
        if self.body.done:
            self._unregister_producer()
            self.client.await_answer()
        else:
            self._register_producer()
        return rest

    # -- towards the client ----------------------------------------------------

    def upstream_received(self, data: bytes) -> None:
        """Read and check the answer's head, then forward the answer's bytes."""
        self.moved = True
        if self.tunnelling:
            self.record.bytes_out += len(data)
            send(self.client.transport, data)
            return
        try:
            if self._reply is None:
                self._raw += data
                self._read_heads()
            else:
                self._pass_answer(data, b"")
        except Fault as fault:
            log.warn("an upstream sent a malformed answer: {kind}", kind=fault.kind)
            self.fail("broken")

    def _read_heads(self) -> None:
        while self._reply is None and not self.ended:
            end = find_end(self._raw, MAX_RESPONSE_HEAD, self._searched)
            if end < 0:
                self._searched = len(self._raw)
                return
            self._searched = 0
            raw, self._raw = self._raw[:end], self._raw[end:]
            answer = read_response(raw, self.head.method)
            if answer.status == 101:
                self._open_tunnel(answer)
                return
            if answer.status >= 200:
                self._begin_answer(answer)
            elif answer.status == 100:
                self._continue()

    def _begin_answer(self, answer: ResponseHead) -> None:
        self._answer, self.expects = answer, None
        self._framed = self.head.minor == 1 and answer.length in (None, -1)
        self._close = (
            not self.head.keep_alive
            or not self.body.done
            or self.client.factory.stopping
            or self.forward.tunnel
            or (self.head.minor == 0 and answer.length in (None, -1))
        )
        self.record.status = answer.status
        hidden = self.client.policy.hidden
        if self.record.tries > 1 and self._retry.may_be_done:
            hidden |= _RETRY_AFTER
        head = answer_head(answer, hidden, framed=self._framed, close=self._close)
        self.answered = True
        rest, self._raw = self._raw, b""
        if answer.length == len(rest):  # the answer is complete, as nearly always
            self.record.bytes_out += len(rest)
            send(self.client.transport, head + rest)
            self._complete(clean=True)
        else:
            self._reply = body_of(answer.length)
            self._pass_answer(rest, head)
        if self.forward.on_answer is not None:
            self.forward.on_answer(answer.status)

    def _pass_answer(self, data: bytes, head: bytes) -> None:
        reply = self._reply
        if reply is None:
            return
        part, rest = reply.feed(data)
        self.record.bytes_out += len(part)
        self._write(head, part, last=reply.done)
        if reply.done:
            self._complete(clean=not rest)

    def _write(self, head: bytes, part: bytes, *, last: bool) -> None:
        if self._framed:
            part = (chunk(part) if part else b"") + (LAST_CHUNK if last else b"")
        if head or part:
            send(self.client.transport, head + part)

    def _complete(self, *, clean: bool) -> None:
        answer, connection = self._answer, self.connection
        self._settle()
        if connection is not None:
            if clean and self.body.done and answer is not None and answer.keep_alive:
                self.forward.upstream.give_back(connection)
            else:
                connection.abort()
        self.client.finish(self, close=self._close)

    # -- tunnels ---------------------------------------------------------------

    def _open_tunnel(self, answer: ResponseHead) -> None:
        if not self.forward.tunnel:
            raise Fault("the upstream switched protocols, but no HTTP upgrade was requested")
        self.record.status, self.record.tunnel = 101, True
        self.tunnelling = self.answered = True
        self.head.raw = b""  # a tunnel is never retried, and may last for a day
        head = answer_head(answer, self.client.policy.hidden, framed=False, close=False)
        rest, self._raw = self._raw, b""
        self.record.bytes_out += len(rest)
        send(self.client.transport, head + rest)
        self._register_producer()
        self.client.receive()

    # -- ends ------------------------------------------------------------------

    def upstream_lost(self) -> None:
        """Retry the request or end the exchange, because the upstream connection was lost."""
        connection, self.connection = self.connection, None
        if self.ended:
            return
        if self.tunnelling:
            self._settle()
            self.client.finish(self, close=True)
        elif self._reply is not None and self._answer is not None and self._answer.length == -1:
            self._write(b"", b"", last=True)
            self._complete(clean=False)
        elif self._raw or self.answered:
            self.fail("reset")
        elif self._retry.is_allowed(connection, repeats=self.client.policy.repeats):
            self._producer, self.client.stage = None, ANSWERING  # its body waits for a retry
            if self.record.tries == 1:
                self.start(fresh=True)
            else:  # the upstream accepted the connection while it was stopping
                self._wait(Unreachable(*self.client.policy.describe_failure("reset", False)[:2]))
        else:
            self.fail("reset")

    def fail(self, cause: str) -> None:
        """End the exchange: send an error, or disconnect the client if an answer has begun."""
        status, code, reason = self.client.policy.describe_failure(cause, self.answered)
        self.record.reason = reason
        if self.answered:
            self.abandon(aborted=True)
            self.client.cut()
        else:
            self._refuse(status, code, reason)

    def _refuse(
        self, status: int, code: str, reason: str, retry_after_s: int | None = None
    ) -> None:
        self.abandon(aborted=False)
        refuse = Refuse(status, code, reason, retry_after_s, close=not self.body.done)
        self.client.refuse(refuse, self.record)

    def abandon(self, *, aborted: bool) -> None:
        """Discard the upstream's answer, because the client has left or gets a different answer."""
        connection = self.connection
        self._settle()
        self.record.aborted = aborted
        if connection is not None:
            connection.abort()

    def client_lost(self) -> None:
        """End the exchange; bytes that the client wrote into a tunnel are still delivered."""
        connection = self.connection
        if not self.tunnelling or connection is None:
            self.abandon(aborted=True)
            return
        self._settle()
        connection.user = None
        connection.transport.loseConnection()

    def _settle(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._retry.cancel()
        self._unregister_producer()
        if self._held:
            self.release_upstream()
        self.connection = None
        self.client.release("upstream")

    def sweep(self, now: float) -> None:
        """Give up if the upstream or the client is silent for too long; called once a second."""
        limits = self.client.limits
        if self.expects is not None and now - self.expects >= EXPECT_S:
            self._continue()
        if self.moved or self.connection is None:
            self.moved, self._last_moved = False, now
            return
        silence = now - self._last_moved
        if self.tunnelling:
            if silence >= limits.tunnel_idle_s:
                self.record.reason = "idle"
                self.client.cut()
        elif self._held:
            if silence >= limits.idle_s:
                self.record.reason = "slow_reader"
                self.client.cut()
        elif self.body.done and silence >= (
            limits.headers_s if self.forward.tunnel else limits.upstream_idle_s
        ):
            self.fail("silent")

    # -- back-pressure ---------------------------------------------------------

    def hold_upstream(self) -> None:
        """Stop reading the answer, because the client reads too slowly."""
        if not self._held and self.connection is not None:
            self._held = True
            self.connection.transport.pauseProducing()

    def release_upstream(self) -> None:
        """Resume reading the answer: the client has read the buffered bytes."""
        if self._held:
            self._held, self.moved = False, True
            if self.connection is not None and self.connection.alive:
                self.connection.transport.resumeProducing()

    def _register_producer(self) -> None:
        if self._producer is None and self.connection is not None:
            self._producer = ClientProducer(self.client)
            self.connection.transport.registerProducer(self._producer, True)

    def _unregister_producer(self) -> None:
        if self._producer is not None and self.connection is not None:
            self.connection.transport.unregisterProducer()
        self._producer = None
