"""How a session says it is, outside rooms. Spec: 2 §4 Chat."""

from __future__ import annotations

from attrs import frozen

from svcserver.chat import stanza
from svcserver.chat.stanza import Stanza

MAX_STATUS = 4_096  # characters
SHOWS = ("away", "chat", "dnd", "xa")


@frozen
class Status:
    """What a session last said about itself."""

    show: str = ""
    text: str = ""

    def stanza(self, sender: str, receiver: str) -> str:
        """As told to a friend."""
        inner = stanza.element("show", self.show) if self.show else ""
        if self.text:
            inner += stanza.element("status", stanza.text(self.text))
        return stanza.element("presence", inner, xmlns=stanza.CLIENT, from_=sender, to=receiver)


def status_of(said: Stanza) -> Status:
    """What is kept of a presence stanza."""
    show, text = said.child("show"), said.child("status")
    word = show.text.strip() if show is not None else ""
    line = text.text if text is not None and len(text.text) <= MAX_STATUS else ""
    return Status(word if word in SHOWS else "", line)
