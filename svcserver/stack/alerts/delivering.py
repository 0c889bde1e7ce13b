"""Brings one alert to one receiver, blocking: in a process of its own, with a deadline.

The address is looked up once, checked, and the connection made to that very address: a name that
means another machine the next moment leads nowhere else. Redirects are not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import smtplib
import socket
import ssl
from email.errors import MessageError
from typing import Any
from urllib.parse import SplitResult

from svcserver.stack.alerts import forms
from svcserver.stack.alerts.channels import Channel, split
from svcserver.stack.alerts.rules import Alert

STEP_S = 10.0  # for each step of a connection
DEFAULT_PORTS = {"https": 443, "http": 80, "smtp": 587, "smtps": 465}
AGAIN = (408, 425, 429)  # and every 5xx
LONGEST = 512  # bytes read of an answer
_GLOBAL_6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # what an IPv6-only network has for IPv4 addresses


class NotDelivered(Exception):
    """``str()`` says why, without the receiver's address; ``again``: a later try may go better."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


def deliver(channel: Channel, alert: Alert, host: str, number: str) -> None:
    """Send the alert to where the channel leads; raises NotDelivered."""
    try:
        url = split(channel.url.reveal())
    except ValueError as why:
        raise NotDelivered(f"URL {why}", again=False) from None
    schemes = ("smtp", "smtps") if channel.form == "mail" else ("https", "http")
    if url.scheme not in schemes or not url.hostname:
        raise NotDelivered(f"URL must begin with {' or '.join(schemes)}://", again=False)
    if url.scheme == "http" and not channel.private:
        raise NotDelivered("http:// is for PRIVATE=1 only; give https://", again=False)
    port = url.port or DEFAULT_PORTS[url.scheme]
    address = checked_address(url.hostname, port, private=channel.private)
    try:
        if channel.form == "mail":
            _mail(channel, alert, host, url, address, port)
        else:
            _post(channel, alert, host, number, url, (address, port))
    except (OSError, http.client.HTTPException, smtplib.SMTPException) as why:
        raise NotDelivered(_words(why), again=not _is_final(why)) from None
    except (ValueError, LookupError, MessageError) as why:
        text = f"a line of the channel's file cannot be sent as it is: {type(why).__name__}"
        raise NotDelivered(text, again=False) from None


def checked_address(name: str, port: int, *, private: bool) -> str:
    """The address of a host that may be asked; raises NotDelivered.

    All that the name means must be public unless ``private``: else it may mean another next time.
    """
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered("the receiver's name means no address", again=True) from None
    addresses = [str(one[4][0]) for one in found]
    if not private and not all(is_public(one) for one in addresses):
        raise NotDelivered(
            "the receiver is not on the public internet; PRIVATE=1 allows that", again=False
        )
    return addresses[0]


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet."""
    try:
        address: Any = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if address in _NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 6 and address not in _GLOBAL_6:
        return False  # old ways to write an IPv4 address among them, such as ::127.0.0.1
    inside = getattr(address, "sixtofour", None) or getattr(address, "teredo", None)
    return bool(address.is_global and not address.is_multicast and inside is None)


def _post(
    channel: Channel,
    alert: Alert,
    host: str,
    number: str,
    url: SplitResult,
    there: tuple[str, int],
) -> None:
    sent = forms.request(alert, host, channel, number)
    name = url.hostname or ""
    connection = http.client.HTTPConnection(name, there[1], timeout=STEP_S)
    connection.default_port = DEFAULT_PORTS[url.scheme]  # which Host does not name
    wire = socket.create_connection(there, timeout=STEP_S)
    try:
        if url.scheme == "https":
            wire = ssl.create_default_context().wrap_socket(wire, server_hostname=name)
        connection.sock = wire
        target = (url.path + sent.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request(sent.method, target, sent.body, sent.headers)
        with connection.getresponse() as reply:
            reply.read(LONGEST)
            status = reply.status
    finally:
        connection.close()
        wire.close()
    if not 200 <= status < 300:
        again = status in AGAIN or status >= 500
        raise NotDelivered(f"the receiver answered {status}", again=again)


def _mail(
    channel: Channel, alert: Alert, host: str, url: SplitResult, address: str, port: int
) -> None:
    if not channel.mail_from or not channel.mail_to:
        raise NotDelivered("mail wants MAIL_FROM and MAIL_TO", again=False)
    context = ssl.create_default_context()
    name = url.hostname or ""
    with _Pinned(address, port, name, context if url.scheme == "smtps" else None) as server:
        if url.scheme == "smtp" and (server.has_extn("starttls") or not channel.private):
            server.starttls(context=context)
        if channel.mail_user and channel.token is not None:
            server.login(channel.mail_user, channel.token.reveal())
        server.send_message(forms.mail(alert, host, channel))


class _Pinned(smtplib.SMTP):
    """An SMTP client whose connection goes to the address that was checked."""

    def __init__(self, address: str, port: int, name: str, context: ssl.SSLContext | None) -> None:
        self._address, self._context = address, context
        super().__init__(timeout=STEP_S)
        self._host = name  # whose certificate STARTTLS wants
        self.connect(name, port)
        self.ehlo_or_helo_if_needed()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        wire = socket.create_connection((self._address, port), timeout)
        if self._context is None:
            return wire
        return self._context.wrap_socket(wire, server_hostname=host)


def _words(why: Exception) -> str:
    if isinstance(why, ssl.SSLCertVerificationError):
        return f"the receiver's certificate: {why.verify_message}"
    if isinstance(why, TimeoutError):
        return "the receiver does not answer"
    if isinstance(why, OSError) and why.strerror and not isinstance(why, smtplib.SMTPException):
        return why.strerror
    return f"the receiver does not speak as it should: {type(why).__name__}"


FINAL = (
    smtplib.SMTPAuthenticationError,
    smtplib.SMTPNotSupportedError,
    ssl.SSLCertVerificationError,
)


def _is_final(why: Exception) -> bool:
    return isinstance(why, FINAL)
