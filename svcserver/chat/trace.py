"""Stanzas for the log of CHAT_TRACE=1: without credentials and players' texts."""

from __future__ import annotations

from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.stanza import Unparseable

SECRETS = ("auth", "response", "password", "digest", "token")
TEXTS = ("body", "status", "subject")


def outline(said: Element) -> str:
    """The stanza with secrets redacted and texts as ``[n chars]``."""
    if said.name in SECRETS:
        inner = "[redacted]"
    elif said.name in TEXTS:
        inner = f"[{len(stanza.content(said))} chars]"
    else:
        inner = stanza.text(stanza.content(said).strip()) + "".join(map(outline, said.elements()))
    pairs = "".join(
        f' {name if isinstance(name, str) else name[1]}="{stanza.attribute(value)}"'
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
