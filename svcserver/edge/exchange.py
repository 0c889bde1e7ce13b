"""One request on its way to an upstream, and the answer on its way back.

No body is buffered: when one side reads too slowly, the other is not read. Framing is written
anew from the parsed message; the sender's own framing is never copied.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.client import Client, Upward
from svcserver.edge.upstream import Connection
from svcserver.edge.verdicts import Forward, Record, Unreachable
from svcserver.edge.wording import answer_head, request_head
from svcserver.http.bodies import LAST_CHUNK, NO_BODY, Body, body_of, chunk
from svcserver.http.connection import CONTINUE, MAX_BACKLOG
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

MOST_TRIES = 3
EXPECT_S = 10.0  # so long a client waits for 100, then it sends its body whatever the upstream does
MAX_KEPT = MAX_BACKLOG  # bytes of a body that is kept to be sent again
_SAFE = (b"GET", b"HEAD")  # may be sent again when the upstream ends before it answers
_RETRY_AFTER = frozenset([b"retry-after"])


class Exchange:
    """Couples a client's request with an upstream connection."""

    def __init__(self, client: Client, head: RequestHead, forward: Forward, record: Record) -> None:
        # all stand here and none in the class, where Python looks for a default ten times as long
        self.client, self.head, self.forward, self.record = client, head, forward, record
        self.body: Body = NO_BODY if head.length == 0 else body_of(head.length)
        self.ready = False  # the upstream has the head
        self.tunnelling = self.ended = False
        self.answered = False  # the client has a head
        self.moved = True  # since the last sweep
        self.connection: Any = None
        self._answer: ResponseHead | None = None
        self._reply: Body | None = None
        self._raw = b""
        self._searched = 0  # bytes of ``_raw`` in which the end of a head is not
        self._framed = False  # chunks towards the client
        self._close = self._held = False
        self._up: Upward | None = None
        self._last = 0.0
        self._parked: Deferred[None] | None = None  # it waits for an upstream that restarts
        self._parked_at: float | None = None
        self._first_lost: Any = None  # the pool of the connection that was lost
        # what was sent of the body, where it may be sent again
        self._kept = bytearray() if forward.repeatable else None
        # since when the client waits for 100 before it sends its body
        self.expects = client.seconds() if head.expects and head.has_body else None

    # -- towards the upstream --------------------------------------------------

    def start(self, *, fresh: bool = False) -> None:
        """Find a connection and send the head."""
        got = self.forward.upstream.take(fresh=fresh)
        if isinstance(got, Connection):  # not asked whether it is a Deferred, an abstract class
            self._connected(got)
        else:
            got.addCallbacks(self._connected, self._unreachable)
            got.addErrback(self._broken)

    def _connected(self, connection: Any) -> None:
        if self.ended:  # kept unused it might be answered 408 at the moment when it is needed
            connection.abort()
            return
        self.connection, connection.user = connection, self
        self.record.tries += 1
        attempt = self.record.tries if self.forward.repeatable else 1
        head = request_head(self.head, self.forward, self.client.policy, attempt=attempt)
        send(connection.transport, b"".join((head, self._kept)) if self._kept else head)
        self.ready = self.moved = True
        if b"expect" in self.client.policy.dropped:  # else the upstream answers it
            self._go_on()
        if buggify("edge: a connection ends in the middle of a request"):
            connection.transport.abortConnection()
        if self.body.done:
            self.client.request_complete()
        self.client.advance()

    def _unreachable(self, failure: Failure) -> None:
        why = failure.value
        if not isinstance(why, Unreachable):
            self._broken(failure)
        elif not self.ended:
            self._park(why)

    def _park(self, why: Unreachable) -> None:
        parked = self.forward.upstream.wait(
            why, self._in_memory(), self._parked_at, self.record.peer
        )
        self._parked = parked
        if self._parked_at is None:
            self._parked_at = self.client.seconds()
        parked.addCallbacks(self._again, self._refused)
        parked.addErrback(self._broken)

    def _in_memory(self) -> int:
        """Bytes of the body that may be in memory while nobody takes them."""
        length = self.head.length
        return MAX_BACKLOG if length is None else min(length, MAX_BACKLOG)

    def _again(self, _: object) -> None:
        self._parked = None
        if not self.ended:
            self.start()

    def _refused(self, failure: Failure) -> None:
        self._parked = None
        if self.ended and failure.check(CancelledError):
            return
        why = failure.value
        if not isinstance(why, Unreachable):
            failure.raiseException()
        elif self._may_be_done or (self.record.tries > 1 and why.retry_after_s is None):
            self.fail("reset")
        elif not self.ended:
            reason = f"upstream_{why.code.removeprefix('upstream_')}"
            self.client.fail(self, why.status, why.code, reason, why.retry_after_s)

    def _broken(self, failure: Failure) -> None:
        log.failure("a request could not be passed on", failure)
        self.client.cut()

    def _go_on(self) -> None:
        """Let a client send its body that waits for a word."""
        if self.expects is not None:
            self.expects = None
            send(self.client.transport, CONTINUE)

    def client_body(self, data: bytes) -> bytes:
        """Pass on the part of ``data`` that is the request's body; gives the rest. Raises Fault."""
        part, rest = self.body.feed(data)
        self.moved, self.expects = True, None
        self.record.bytes_in += len(part)
        limit = self.client.policy.limits.max_body
        if limit is not None and self.record.bytes_in > limit:
            raise Fault("body_too_large", 413, "body_too_large")
        chunked = self.head.length is None
        if chunked:
            part = (chunk(part) if part else b"") + (LAST_CHUNK if self.body.done else b"")
        if part:
            send(self.connection.transport, part)
            self._keep(part)
        if self.body.done:
            self._unregister_up()
            self.client.request_complete()
        elif self._up is None:
            self._register_up()
        return rest

    def _keep(self, part: bytes) -> None:
        if self._kept is not None:
            self._kept += part
            if len(self._kept) > MAX_KEPT:
                self._kept = None

    def client_tunnel(self, data: bytes) -> None:
        """Pass on bytes of the tunnel, unparsed."""
        self.moved = True
        self.record.bytes_in += len(data)
        send(self.connection.transport, data)

    # -- towards the client ----------------------------------------------------

    def upstream_received(self, data: bytes) -> None:
        """Pass on bytes of the answer; its head is read and checked first."""
        self.moved = True
        if self.tunnelling:
            self.record.bytes_out += len(data)
            send(self.client.transport, data)
            return
        try:
            if self._reply is None:
                self._raw += data
                self._heads()
            else:
                self._pass(data, b"")
        except Fault as fault:
            log.warn("an upstream's answer cannot be read: {kind}", kind=fault.kind)
            self.fail("broken")

    def _heads(self) -> None:
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
                self._begin(answer)
            elif answer.status == 100:
                self._go_on()

    def _begin(self, answer: ResponseHead) -> None:
        self._answer, self.expects = answer, None
        self._framed = self.head.minor == 1 and answer.length in (None, -1)
        self._close = (
            not self.head.keep_alive
            or not self.body.done
            or self.client.is_stopping()
            or self.forward.tunnel
            or (self.head.minor == 0 and answer.length in (None, -1))
        )
        self.record.status = answer.status
        hidden = self.client.policy.hidden
        if self.record.tries > 1 and self._may_be_done:
            hidden |= _RETRY_AFTER
        head = answer_head(answer, hidden, framed=self._framed, close=self._close)
        self.answered = True
        rest, self._raw = self._raw, b""
        if answer.length == len(rest):  # it is all here, as nearly always
            self.record.bytes_out += len(rest)
            send(self.client.transport, head + rest)
            self._complete(clean=True)
        else:
            self._reply = body_of(answer.length)
            self._pass(rest, head)
        if self.forward.on_answer is not None:
            self.forward.on_answer(answer.status)

    def _pass(self, data: bytes, head: bytes) -> None:
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
        self.client.over(self, close=self._close)

    # -- tunnels ---------------------------------------------------------------

    def _open_tunnel(self, answer: ResponseHead) -> None:
        if not self.forward.tunnel:
            raise Fault("an upgrade nobody asked for")
        self.record.status, self.record.tunnel = 101, True
        self.tunnelling = self.answered = True
        self.head.raw = b""  # never sent again, and a tunnel may last for a day
        head = answer_head(answer, self.client.policy.hidden, framed=False, close=False)
        rest, self._raw = self._raw, b""
        self.record.bytes_out += len(rest)
        send(self.client.transport, head + rest)
        self._register_up()
        self.client.advance()

    # -- ends ------------------------------------------------------------------

    def upstream_lost(self) -> None:
        """The upstream's connection is gone."""
        connection, self.connection = self.connection, None
        if self.ended:
            return
        if self.tunnelling:
            self._settle()
            self.client.over(self, close=True)
        elif self._reply is not None and self._answer is not None and self._answer.length == -1:
            self._write(b"", b"", last=True)
            self._complete(clean=False)
        elif self._may_retry(connection):
            self._first_lost, self.ready, self._up = connection.pool, False, None
            if self.record.tries == 1:
                self.start(fresh=True)
            else:  # it took a connection while it was being ended
                self._park(Unreachable(*self.client.policy.lost("reset", False)[:2]))
        else:
            self.fail("reset")

    @property
    def _is_safe(self) -> bool:
        return self.head.method in _SAFE

    @property
    def _may_be_done(self) -> bool:
        """Then nobody is told to ask again: what the client sends anew bears no mark."""
        return self.record.tries > 0 and not self._is_safe

    def _may_retry(self, connection: Any) -> bool:
        most = MOST_TRIES if self.client.policy.repeats else 1 + connection.used
        if self.record.tries >= most or self._raw or self.answered:
            return False
        if self._is_safe and not self.head.has_body:
            return True
        # one that has ended two processes may be what ended them
        return self._kept is not None and self._first_lost in (None, connection.pool)

    def fail(self, why: str) -> None:
        """The upstream will not answer: ``reset``, ``silent`` or ``broken``."""
        status, code, reason = self.client.policy.lost(why, self.answered)
        self.record.reason = reason
        if self.answered:
            self.abandon(aborted=True)
            self.client.cut()
        else:
            self.client.fail(self, status, code, reason)

    def abandon(self, *, aborted: bool) -> None:
        """Drop the upstream's answer: the client is gone, or gets another answer."""
        connection = self.connection
        self._settle()
        self.record.aborted = aborted
        if connection is not None:
            connection.abort()

    def client_gone(self) -> None:
        """The client's connection has ended; bytes it wrote into a tunnel are still delivered."""
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
        if self._parked is not None:
            self._parked.cancel()
        if self._up is not None:
            self._unregister_up()
        if self._held:
            self.release_upstream()
        self.connection = None
        self.client.release("upstream")

    def sweep(self, now: float) -> None:
        """Give up an upstream that has sent nothing for too long; called once a second."""
        limits = self.client.policy.limits
        if self.expects is not None and now - self.expects >= EXPECT_S:
            self._go_on()
        if self.moved or not self.ready:
            self.moved, self._last = False, now
            return
        silence = now - self._last
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
        """Stop reading the answer: the client reads too slowly."""
        if not self._held and self.connection is not None:
            self._held = True
            self.connection.transport.pauseProducing()

    def release_upstream(self) -> None:
        """Read the answer on, once the client has taken what is buffered."""
        if self._held:
            self._held, self.moved = False, True
            if self.connection is not None and self.connection.alive:
                self.connection.transport.resumeProducing()

    def _register_up(self) -> None:
        if self._up is None and self.connection is not None:
            self._up = Upward(self.client)
            self.connection.transport.registerProducer(self._up, True)

    def _unregister_up(self) -> None:
        if self._up is not None and self.connection is not None:
            self.connection.transport.unregisterProducer()
        self._up = None
