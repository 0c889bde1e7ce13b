"""Stanzas for the log of CHAT_TRACE=1: without credentials and players' texts."""

from __future__ import annotations

from svcserver.chat import stanza
from svcserver.chat.stanza import Stanza, Unparseable

SECRETS = ("auth", "response", "password", "digest", "token")
TEXTS = ("body", "status", "subject")


def outline(said: Stanza) -> str:
    """The stanza with secrets redacted and texts as ``[n chars]``."""
    if said.name in SECRETS:
        inner = "[redacted]"
    elif said.name in TEXTS:
        inner = f"[{len(said.text)} chars]"
    else:
        inner = stanza.text(said.text.strip()) + "".join(map(outline, said.children))
    pairs = "".join(
        f' {name.rpartition(" ")[2]}="{stanza.attribute(value)}"'
        for name, value in said.attributes.items()
    )
    return f"<{said.name}{pairs}>{inner}</{said.name}>" if inner else f"<{said.name}{pairs}/>"


def outline_frame(frame: bytes) -> str:
    """The outline of a frame that we send."""
    payload = frame[{126: 4, 127: 10}.get(frame[1], 2) :]
    try:
        return outline(stanza.parse(payload.decode("utf-8")))
    except Unparseable:
        return f"[{len(payload)} bytes]"
