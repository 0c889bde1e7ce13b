"""An alert as each kind of receiver wants it."""

from __future__ import annotations

import hmac
import re
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import quote

from attrs import evolve, field, frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.secrets import Secret
from svcserver.kernel.times import iso
from svcserver.stack.alerts.channels import Channel
from svcserver.stack.alerts.rules import Alert

SIGNATURE = "X-Svc-Signature"
TRANSACTION = "X-Svc-Transaction"
_MARKDOWN = re.compile(r"[\\*_~`|<>\[\]#]")


@frozen
class Sent:
    """A request to a webhook; ``path`` follows the address, where the form wants one."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)
    body: bytes


def request(alert: Alert, host: str, channel: Channel, number: str) -> Sent:
    """The request of a webhook; equal ``number``, equal alert: a receiver may drop the second."""
    alert = _visible(alert)
    line = f"{host}: {alert.title}. {alert.text}"
    method, path, headers = "POST", "", {"Content-Type": "application/json", TRANSACTION: number}
    if channel.form == "discord":
        body = json.dump({"content": _marked(line)[:2000], "allowed_mentions": {"parse": []}})
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
    return Sent(method, path, headers, body)


def as_object(alert: Alert, host: str) -> dict[str, object]:
    """Return the generic form."""
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
    """``t=SECONDS,v1=HEX``: HMAC-SHA256 over the time, a dot and the body."""
    stamp = str(int(at))
    made = hmac.new(secret.reveal().encode(), stamp.encode() + b"." + body, "sha256")
    return f"t={stamp},v1={made.hexdigest()}"


def mail(alert: Alert, host: str, channel: Channel) -> EmailMessage:
    """A mail to all of the channel's addresses, the host named first, the time in UTC."""
    made, alert = EmailMessage(), _visible(alert)
    made["Subject"] = f"{host}: {alert.title}"
    made["From"], made["To"] = channel.mail_from, ", ".join(channel.mail_to)
    made["Date"] = formatdate(alert.at)
    made.set_content(f"{alert.text}\n\n{iso(alert.at)}\n")
    return made


def _visible(alert: Alert) -> Alert:
    """The alert with foreign text shown: a line break in a subject would end a mail's header."""
    text = "\n".join(map(visible, alert.text.split("\n")))
    return evolve(alert, subject=visible(alert.subject), text=text)


def _marked(text: str) -> str:
    """Text in which Discord finds no link with words of its own, no quote and no heading."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def _ascii(text: str) -> str:
    return "".join(one if " " <= one <= "~" else "?" for one in text)
