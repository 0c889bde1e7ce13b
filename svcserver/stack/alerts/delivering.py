"""The delivery of one alert to one receiver.

The receiver's name is resolved once, and all resulting addresses are checked. The client connects
to the first of these addresses. Redirects are not followed.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import formatdate
from io import BytesIO
from typing import Any
from urllib.parse import SplitResult, quote

from attrs import evolve, field, frozen
from hyperlink import EncodedURL
from OpenSSL.SSL import Error as TLSError
from service_identity import VerificationError
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectionClosed, TimeoutError
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Protocol
from twisted.internet.ssl import optionsForClientTLS
from twisted.internet.task import Cooperator
from twisted.internet.threads import deferToThreadPool
from twisted.mail.smtp import (
    AUTHDeclinedError,
    AUTHRequiredError,
    ESMTPSenderFactory,
    SMTPClientError,
    TLSRequiredError,
)
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, FileBodyProducer, ResponseFailed, ResponseNeverReceived
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from svcserver.kernel import json
from svcserver.kernel.alert_settings import Channel, split, unfit
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.secrets import Secret
from svcserver.kernel.times import iso
from svcserver.stack.alerts.rules import Alert

SIGNATURE = "X-Svc-Signature"
TRANSACTION = "X-Svc-Transaction"
_MARKDOWN = re.compile(r"[\\*_~`|<>\[\]#]")


@frozen
class WebhookRequest:
    """A request to a webhook; ``path`` is appended to the channel's URL."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes


def request(alert: Alert, host: str, channel: Channel, number: str) -> WebhookRequest:
    """Return the webhook request; ``number`` lets a receiver recognise and drop repeats."""
    alert = _visible(alert)
    line = f"{host}: {alert.title}. {alert.text}"
    method, path, headers = "POST", "", {"Content-Type": "application/json", TRANSACTION: number}
    if channel.form == "discord":
        body = json.dump({"content": _marked(line)[:2000], "allowed_mentions": {"parse": []}})
    elif channel.form == "slack":
        body = json.dump({"text": _escaped(line), "mrkdwn": False, "unfurl_links": False})
    elif channel.form == "matrix":
        room = quote(channel.room, safe="")
        method, path = "PUT", f"/_matrix/client/v3/rooms/{room}/send/m.room.message/{number}"
        body = json.dump({"msgtype": "m.text", "body": line, "m.mentions": {}})
    elif channel.form == "ntfy":
        headers["Content-Type"] = "text/plain; charset=utf-8"
        headers["Title"] = _ascii(f"{host}: {alert.title}")
        headers["Priority"] = "3" if alert.over else "4"
        body = alert.text.encode()
    else:
        body = json.dump(as_object(alert, host))
    if channel.token is not None:
        headers["Authorization"] = f"Bearer {channel.token.reveal()}"
    if channel.signing_secret is not None:
        headers[SIGNATURE] = signature(channel.signing_secret, alert.at, body)
    return WebhookRequest(method, path, headers, body)


def as_object(alert: Alert, host: str) -> dict[str, object]:
    """Return the alert as the JSON object that a generic webhook gets."""
    return {
        "host": host,
        "what": alert.what.value,
        "subject": alert.subject,
        "title": alert.title,
        "text": alert.text,
        "at": iso(alert.at),
        "over": alert.over,
    }


def signature(secret: Secret, at: float, body: bytes) -> str:
    """Return ``t=SECONDS,v1=HEX``: the HMAC-SHA256 of the time, a dot and the body."""
    stamp = str(int(at))
    digest = hmac.new(secret.reveal().encode(), stamp.encode() + b"." + body, "sha256")
    return f"t={stamp},v1={digest.hexdigest()}"


def mail(alert: Alert, host: str, channel: Channel) -> EmailMessage:
    """Return the mail to all of the channel's addresses; the time in the mail is in UTC."""
    message, alert = EmailMessage(), _visible(alert)
    message["Subject"] = f"{host}: {alert.title}"
    message["From"], message["To"] = channel.mail_from, ", ".join(channel.mail_to)
    message["Date"] = formatdate(alert.at)
    message.set_content(f"{alert.text}\n\n{iso(alert.at)}\n")
    return message


def _visible(alert: Alert) -> Alert:
    """Escape control characters in an alert, because its text can come from other people.

    For example, a line break in a subject would end the mail's header.
    """
    text = "\n".join(map(visible, alert.text.split("\n")))
    return evolve(alert, subject=visible(alert.subject), text=text)


def _marked(text: str) -> str:
    """Escape Markdown, so that Discord shows the text as it is."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _escaped(text: str) -> str:
    """Escape what Slack would show as a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ascii(text: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)


CONNECT_S = 10.0
DELIVERY_S = 40.0  # limit for the whole delivery, whatever the receiver does
DEFAULT_PORTS = {"https": 443, "http": 80, "smtp": 587, "smtps": 465}
RETRIED = (408, 425, 429)  # statuses after which a retry may succeed, besides all 5xx
_GLOBAL_6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # an IPv6-only network's names for IPv4 addresses

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]


class NotDelivered(Exception):
    """The error for an undelivered alert; ``again`` is True if a retry may succeed.

    ``str()`` is the reason, without the receiver's address.
    """

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


async def addresses_of(reactor: Any, name: str, port: int) -> list[str]:
    """Return all IP addresses of a name; raises OSError or UnicodeError."""
    entries = await deferToThreadPool(
        reactor, reactor.getThreadPool(), socket.getaddrinfo, name, port, type=socket.SOCK_STREAM
    )
    return [str(entry[4][0]) for entry in entries]


@frozen
class AlertClient:
    """The client that sends alerts about the host ``host``; ``look_up`` resolves names."""

    reactor: Any
    host: str
    look_up: LookUp

    @classmethod
    def with_resolver(cls, reactor: Any, host: str) -> AlertClient:
        """Return a client that uses the system's resolver."""
        return cls(reactor, host, lambda name, port: addresses_of(reactor, name, port))

    def deliver(self, channel: Channel, alert: Alert, number: str) -> Deferred[None]:
        """Send the alert; fail with NotDelivered on an error, or after ``DELIVERY_S``.

        Each retry has the same ``number``, so that a receiver can drop repeats.
        """
        delivery = Deferred.fromCoroutine(self._deliver(channel, alert, number))
        delivery.addTimeout(DELIVERY_S, self.reactor)
        return delivery.addErrback(_explain)

    async def _deliver(self, channel: Channel, alert: Alert, number: str) -> None:
        try:
            url, fault = split(channel.url.reveal()), unfit(channel)
        except ValueError as error:
            raise NotDelivered(f"URL {error}", again=False) from None
        if fault is not None:
            raise NotDelivered(fault, again=False)
        port = url.port or DEFAULT_PORTS[url.scheme]
        address = await self._resolve(url.hostname or "", port, private=channel.private)
        kind = TCP6ClientEndpoint if ":" in address else TCP4ClientEndpoint
        endpoint: IStreamClientEndpoint = kind(self.reactor, address, port, timeout=CONNECT_S)
        if url.scheme in ("https", "smtps"):
            endpoint = wrapClientTLS(optionsForClientTLS(url.hostname or ""), endpoint)
        if channel.form == "mail":
            await self._mail(channel, alert, url, endpoint)
        else:
            await self._post(channel, alert, number, url, endpoint)

    async def _resolve(self, name: str, port: int, *, private: bool) -> str:
        """Return the address to connect to, or raise NotDelivered.

        If ``private`` is false, every address of the name must be public.
        """
        try:
            addresses = await self.look_up(name, port)
        except (OSError, UnicodeError):
            raise NotDelivered("the receiver's name has no address", again=True) from None
        if not private and not all(map(is_public, addresses)):
            raise NotDelivered(
                "the receiver is not on the public internet. Set PRIVATE=1 to allow that.",
                again=False,
            )
        return addresses[0]

    async def _post(
        self,
        channel: Channel,
        alert: Alert,
        number: str,
        url: SplitResult,
        endpoint: IStreamClientEndpoint,
    ) -> None:
        webhook = request(alert, self.host, channel, number)
        address = url.netloc.rpartition("@")[2]  # without a name and password
        target = url._replace(netloc=address, path=url.path + webhook.path or "/", fragment="")
        cooperator = Cooperator(scheduler=lambda step: self.reactor.callLater(0, step))
        reply = await Agent.usingEndpointFactory(self.reactor, _Pinned(endpoint)).request(
            webhook.method.encode(),
            EncodedURL.from_text(target.geturl()).to_uri().to_text().encode("ascii"),
            Headers({name: [text] for name, text in webhook.headers.items()}),
            FileBodyProducer(BytesIO(webhook.body), cooperator=cooperator),
        )
        body: Any = Protocol()
        reply.deliverBody(body)
        body.transport.loseConnection()  # the status is enough
        if not 200 <= reply.code < 300:
            again = reply.code in RETRIED or reply.code >= 500
            raise NotDelivered(f"the receiver answered {reply.code}", again=again)

    async def _mail(
        self, channel: Channel, alert: Alert, url: SplitResult, endpoint: IStreamClientEndpoint
    ) -> None:
        user = channel.mail_user if channel.token is not None else ""
        secret = channel.token.reveal() if channel.token is not None else ""
        sent: Deferred[Any] = Deferred()
        factory = ESMTPSenderFactory(
            user.encode(),
            secret.encode(),
            channel.mail_from,
            list(channel.mail_to),
            BytesIO(mail(alert, self.host, channel).as_bytes()),
            sent,
            retries=0,
            timeout=DELIVERY_S,
            contextFactory=optionsForClientTLS(url.hostname or ""),
            requireAuthentication=bool(user),
            requireTransportSecurity=url.scheme == "smtp" and not channel.private,
        )
        protocol: Any = await endpoint.connect(factory)
        try:
            await sent
        except CancelledError:  # the deadline
            protocol.transport.abortConnection()
            raise


@implementer(IAgentEndpointFactory)
@frozen
class _Pinned:
    """The endpoint factory that ignores the URL and always returns the same endpoint."""

    endpoint: IStreamClientEndpoint

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        return self.endpoint


def is_public(text: str) -> bool:
    """Return whether an IP address belongs to the public internet."""
    try:
        address: Any = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if address in _NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 6 and address not in _GLOBAL_6:
        return False  # such as ::127.0.0.1, an obsolete form of an IPv4 address
    inside = getattr(address, "sixtofour", None) or getattr(address, "teredo", None)
    return bool(address.is_global and not address.is_multicast and inside is None)


def _explain(failure: Failure) -> None:
    """Raise NotDelivered with the reason for the failure."""
    error = failure.value
    while isinstance(error, (ResponseFailed, ResponseNeverReceived)) and error.reasons:
        error = error.reasons[0].value
    if isinstance(error, NotDelivered):
        raise error
    for kinds, reason, again in _FAULTS:
        if isinstance(error, kinds):
            raise NotDelivered(reason, again=again)
    if isinstance(error, SMTPClientError):
        again = 400 <= error.code < 500 or error.code < 0
        raise NotDelivered(f"the receiver answered {error.code}", again=again)
    if isinstance(error, (ConnectError, OSError)):
        cause = getattr(error, "osError", None) or error
        reason = getattr(cause, "strerror", None) or "the receiver cannot be reached"
        raise NotDelivered(reason, again=True)
    if isinstance(error, (ValueError, LookupError, MessageError)):
        reason = f"a setting in the channel's file cannot be sent: {type(error).__name__}"
        raise NotDelivered(reason, again=False)
    reason = f"the receiver violates the protocol: {type(error).__name__}"
    raise NotDelivered(reason, again=True)


_FAULTS: tuple[tuple[Any, str, bool], ...] = (
    ((TimeoutError, DeferredTimeout, CancelledError), "the receiver does not answer", True),
    ((VerificationError, TLSError), "the receiver's certificate cannot be verified", False),
    ((AUTHDeclinedError, AUTHRequiredError), "the mail server refuses the log-in", False),
    (TLSRequiredError, "the mail server offers no TLS", False),
    (ConnectionClosed, "the receiver closed the connection", True),
)
