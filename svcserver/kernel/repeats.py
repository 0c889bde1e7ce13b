"""A request that the gateway sends again, because its upstream ended before it had answered.

What it asks for may have been done. It is done once, and answered as it was the first time; what
others did meanwhile stays.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.digits import whole_in

MOST_DIGITS = 9
LATE_MS = 2_000  # what a request may have waited in us the second time, and not the first


@frozen
class Repeat:
    """``waited_ms``: since the gateway got the request, in milliseconds, not counting ours."""

    waited_ms: int

    @classmethod
    def of(cls, text: str) -> Repeat:
        """What the gateway's header says; a text that says no time counts as none at all."""
        return cls(whole_in(text, MOST_DIGITS) or 0)

    def may_have_done(self, at_ms: int, now_ms: int) -> bool:
        """Whether what was done at ``at_ms`` may be its first try; both of one clock."""
        return at_ms >= now_ms - self.waited_ms - LATE_MS

    def is_before(self, at_ms: int, now_ms: int) -> bool:
        """Whether it was asked for before ``at_ms``, so that it does not mean what came then."""
        return at_ms > now_ms - self.waited_ms
