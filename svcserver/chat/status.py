"""The status (away, busy, ...) that a session announces to friends. Spec: 2 §4 Chat."""

from __future__ import annotations

from attrs import frozen

from svcserver.chat import stanza
from svcserver.chat.stanza import Stanza

MAX_STATUS = 4_096  # characters
SHOWS = ("away", "chat", "dnd", "xa")


@frozen
class Status:
    """An announced status: the ``show`` word and a text."""

    show: str = ""
    text: str = ""

    def stanza(self, sender: str, receiver: str) -> str:
        """The presence stanza that tells it to a friend."""
        inner = stanza.element("show", self.show) if self.show else ""
        if self.text:
            inner += stanza.element("status", stanza.text(self.text))
        return stanza.element("presence", inner, xmlns=stanza.CLIENT, from_=sender, to=receiver)


def status_of(said: Stanza) -> Status:
    """The status in a presence stanza; what is not valid is dropped."""
    show, text = said.child("show"), said.child("status")
    word = show.text.strip() if show is not None else ""
    line = text.text if text is not None and len(text.text) <= MAX_STATUS else ""
    return Status(word if word in SHOWS else "", line)
