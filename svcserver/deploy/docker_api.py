"""A client for the API of a Docker engine, over HTTP on a unix socket or over HTTPS.

Every call has a deadline, and every reply a maximum size.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import treq
from attrs import define, field
from OpenSSL import SSL, crypto
from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint, UNIXClientEndpoint, wrapClientTLS
from twisted.internet.error import VerifyError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.ssl import (
    Certificate,
    PrivateCertificate,
    optionsForClientTLS,
    trustRootFromCertificates,
)
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from svcserver.kernel import json
from svcserver.kernel.settings import BadSetting

TLS_FILES = ("ca.pem", "cert.pem", "key.pem")  # Docker's names
CONNECT_S = 5
BASE = "http://docker"
CALL_S = 10.0
MAX_REPLY = 32 * 1024 * 1024  # bytes; a task has about 2,000
MAX_MESSAGE = 300  # characters of an error
OLDEST = (1, 41)  # Docker 20.10
Json = Mapping[str, Any]


class EngineError(Exception):
    """The error when the engine refuses a call or does not answer (status 0).

    ``str()`` is the reason.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@implementer(IAgentEndpointFactory)
@define
class _EngineEndpoint:
    """The endpoint factory that ignores the URL and always connects to one address."""

    endpoint: Any

    def endpointForURI(self, uri: Any) -> Any:
        return self.endpoint


def engine_client(reactor: Any, address: str, certificates: str) -> HTTPClient:
    """Return a treq client for the container engine at a socket's path or ``tcp://host:port``."""
    pool = HTTPConnectionPool(reactor, persistent=True)
    pool.maxPersistentPerHost = 4
    endpoint: Any = UNIXClientEndpoint(reactor, address, timeout=CONNECT_S)
    target = urlsplit(address)
    if target.hostname and target.port:
        endpoint = HostnameEndpoint(reactor, target.hostname, target.port, timeout=CONNECT_S)
        endpoint = wrapClientTLS(tls_options(target.hostname, certificates), endpoint)
    return HTTPClient(Agent.usingEndpointFactory(reactor, _EngineEndpoint(endpoint), pool=pool))


def tls_options(host: str, certificates: str) -> Any:
    """Return TLS options for ``host``, with the files in ``certificates``; raises BadSetting."""
    if not certificates:
        raise BadSetting(
            "DOCKER_HOST is a TCP address, which needs TLS. Set DOCKER_CERT_PATH to the folder "
            f"with {', '.join(TLS_FILES)}, or DOCKER_HOST to a unix socket."
        )
    try:
        authority, own, key = [(Path(certificates) / name).read_bytes() for name in TLS_FILES]
        roots = trustRootFromCertificates([Certificate.loadPEM(authority)])
        return optionsForClientTLS(host, roots, PrivateCertificate.loadPEM(own + b"\n" + key))
    except OSError as error:
        raise BadSetting(
            f"DOCKER_CERT_PATH: {error.filename} cannot be read: {error.strerror}"
        ) from None
    except (SSL.Error, crypto.Error, VerifyError, ValueError):
        names = ", ".join(TLS_FILES)
        raise BadSetting(
            f"DOCKER_CERT_PATH: {names} in {certificates} must be a CA certificate, a client "
            "certificate and its key, all in PEM format"
        ) from None


class ReplyBody(Protocol):
    """The body of a reply, limited to ``most`` bytes; ``done`` fires with the body.

    If ``done`` is cancelled, the connection is closed.
    """

    def __init__(self, most: int) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._close())
        self._most = most
        self._size = 0
        self._parts: list[bytes] = []

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most:
            error = EngineError(
                0, f"a reply of the container engine has more than {self._most} bytes"
            )
            self._end(Failure(error))
            self._close()
        else:
            self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        complete = reason.check(ResponseDone, PotentialDataLoss)
        self._end(b"".join(self._parts) if complete else reason)

    def _end(self, result: Any) -> None:
        self._parts = []
        if not self.done.called:
            self.done.callback(result)

    def _close(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()


@define(eq=False)
class DockerApi:
    """The API of the container engine; ``http`` is a treq client."""

    http: Any
    clock: IReactorTime
    version: str = field(default="", init=False)  # empty until it is negotiated

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        filters: Json | None = None,
        **query: str,
    ) -> Any:
        """Return the reply's JSON, or None for an empty body; raises EngineError."""
        if not self.version:
            self.version = _negotiated(await self._send("GET", f"{BASE}/version", None))
        return await self._send(method, self._url(path, filters, query), body)

    async def follow_events(self, filters: Json, changed: Callable[[], None]) -> None:
        """Call ``changed`` after each event; return when the stream ends, or raise EngineError."""
        url = self._url("/events", filters, {})
        try:
            reply = await self.http.get(url, unbuffered=True).addTimeout(CALL_S, self.clock)
            if reply.code == 200:
                await treq.collect(reply, lambda data: changed())
        except Exception as error:
            raise _no_answer(error) from error
        if reply.code != 200:
            message = f"the container engine refused the event stream with status {reply.code}"
            raise EngineError(reply.code, message)

    def _url(self, path: str, filters: Json | None, query: Mapping[str, str]) -> str:
        words = dict(query)
        if filters is not None:
            words["filters"] = json.dump(filters).decode()
        return f"{BASE}/v{self.version}{path}" + (f"?{urlencode(words)}" if words else "")

    async def _send(self, method: str, url: str, body: Json | None) -> Any:
        exchange = Deferred.fromCoroutine(self._exchange(method, url, body))
        try:
            status, content = await exchange.addTimeout(CALL_S, self.clock)
            reply = json.parse(content) if content.strip() else None
        except EngineError:
            raise
        except Exception as error:
            self.version = ""  # the next engine may be another version
            raise _no_answer(error) from error
        if status >= 400:
            message = reply.get("message") if isinstance(reply, dict) else None
            raise EngineError(status, str(message or f"status {status}")[:MAX_MESSAGE])
        return reply

    async def _exchange(self, method: str, url: str, body: Json | None) -> tuple[int, bytes]:
        head = {} if body is None else {"content-type": "application/json"}
        data = None if body is None else json.dump(body)
        reply = await self.http.request(method, url, data=data, headers=head, unbuffered=True)
        content = ReplyBody(MAX_REPLY)
        reply.deliverBody(content)
        return reply.code, await content.done


def _no_answer(error: Exception) -> EngineError:
    return EngineError(0, f"no answer: {type(error).__name__} {error}"[:MAX_MESSAGE])


def _negotiated(reply: Any) -> str:
    """Return the API version to use: 1.41, or the engine's oldest version if 1.41 is too old."""
    try:
        newest = _numbers(reply["ApiVersion"])
        version = max(OLDEST, _numbers(reply.get("MinAPIVersion", "1.0")))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EngineError(0, "the engine's reply to /version contains no API version") from None
    if version > newest:
        message = f"the container engine supports only API versions up to {reply['ApiVersion']}"
        raise EngineError(0, f"{message}. Install Docker 20.10 or later")
    return ".".join(map(str, version))


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
