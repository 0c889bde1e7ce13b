"""A request that the gateway sends again, because its upstream ended before it had answered.

What it asks for may have been done. It is done once, and answered as it was the first time; what
others did meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from svcserver.kernel.digits import whole_in

MOST_DIGITS = 9
LATE_MS = 500  # by which clocks of two machines differ, or bytes wait for a busy process


def no_time() -> float:
    """Of what has come just now."""
    return 0.0


def since(seconds: Callable[[], float]) -> Callable[[], float]:
    """A count of the seconds from now on, by a clock that gives ``seconds``."""
    began = seconds()
    return lambda: seconds() - began


@frozen
class Repeat:
    """``waited_ms``: from when the gateway got the request until it sent this repeat of it.

    ``here_s()``: seconds since the repeat has come. So the time in a queue of ours counts.
    """

    waited_ms: int
    here_s: Callable[[], float] = field(default=no_time, eq=False, repr=False)

    @classmethod
    def of(cls, text: str, here_s: Callable[[], float] = no_time) -> Repeat:
        """What the gateway's header says; a text that says no time counts as none at all."""
        return cls(whole_in(text, MOST_DIGITS) or 0, here_s)

    @property
    def asked_ms_ago(self) -> int:
        """How long ago the gateway got the request: it asks for nothing that came later."""
        return self.waited_ms + round(self.here_s() * 1000)

    def may_have_done(self, at_ms: int, now_ms: int) -> bool:
        """Whether what was done at ``at_ms`` may be its first try; both of one clock."""
        return at_ms >= now_ms - self.asked_ms_ago - LATE_MS

    def is_before(self, at_ms: int, now_ms: int, *, late_ms: int = LATE_MS) -> bool:
        """Whether it was asked for before ``at_ms``, so that it does not mean what came then.

        It counts as before also where it came up to ``late_ms`` later: to end what came just before
        can be asked for once more, but what was ended by mistake is gone.
        """
        return at_ms > now_ms - self.asked_ms_ago - late_ms
