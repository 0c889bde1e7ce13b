"""The status (away, busy, ...) that a session announces to friends. Spec: 2 §4 Chat."""

from __future__ import annotations

from attrs import frozen
from twisted.words.xish.domish import Element

from svcserver.chat import stanza

MAX_STATUS = 4_096  # characters
SHOWS = ("away", "chat", "dnd", "xa")


@frozen
class Status:
    """An announced status: the ``show`` word and a text."""

    show: str = ""
    text: str = ""

    def stanza(self, sender: str, receiver: str) -> Element:
        """Return the presence that sends it to a friend."""
        parts = (("show", self.show), ("status", self.text))
        inner = [stanza.element(None, name, value) for name, value in parts if value]
        return stanza.element(stanza.CLIENT, "presence", *inner, from_=sender, to=receiver)


def status_of(presence: Element) -> Status:
    """Return the status in a presence; invalid parts are dropped."""
    show = stanza.content(stanza.child(presence, "show")).strip()
    text = stanza.content(stanza.child(presence, "status"))
    return Status(show if show in SHOWS else "", text if len(text) <= MAX_STATUS else "")
