"""The error replies that a correct host may send; every other error reply is a violation.

Without this rule, a host that rejects all players would break no rule, because players accept
error replies.
"""

import re
from math import inf

from attrs import define, field

from simulation.outcomes import Violations

SETTLES_S = 60.0  # how long traces of a mended fault may be visible
PROMPT_S = 15.0  # the deadline of a reply while nothing is broken
# allowed in every state; the actions themselves check their replies against the history
MAY_REFUSE: dict[str, tuple[int, ...]] = {
    "POST /svc/api/Register": (429,),  # the rate limit also counts attempts during faults
    "POST /candidate/join/*": (404,),  # the party has another candidate by now
    "GET /candidate/status": (404,),  # the candidate was cancelled meanwhile
    "PUT /party/invite": (409,),  # already there, full, or declined
    "PUT /party/invite/accept/*": (404, 409),  # the invite has ended; the party is full
    "PUT /party/member/promote/*": (404,),  # the player has left the party
    "PUT /slayerlink/invite": (404, 409),  # no friends any more; already linked or invited
    "POST /slayerlink/invite": (404, 409),  # the invite has ended; the slot is taken
    "DELETE /slayerlink/links": (404,),  # the other player has ended the link
    "POST /guild": (403, 409, 429),  # as before; one new guild in ten minutes
    "POST /guild/invite/accept/*": (404, 409),  # the invite has ended; the player is in a guild now
    "PUT /guild/invite/*": (403, 404, 409, 429),  # by rank; already there; declined lately
    "PUT /guild/rank/*/*": (403, 404),  # by the leader alone; the other has left
    "DELETE /guild/player": (404, 409),  # no longer in a guild; a leader cannot leave
    "DELETE /guild/player/*": (403, 404, 409),  # by the leader alone; the other has left
    "DELETE /guild/*": (403, 404),  # by the leader alone
}
_MAY_REFUSE = [
    (re.compile(what.replace("*", "[^/?]+")), statuses) for what, statuses in MAY_REFUSE.items()
]


def may_refuse(method: str, path: str, status: int) -> bool:
    """Return whether a correct host may send this error status to a signed-in player."""
    what = f"{method} {path.partition('?')[0]}"
    return any(status in known and shape.fullmatch(what) for shape, known in _MAY_REFUSE)


@define(eq=False)
class Answers:
    """Checks the replies to requests that were sent while no fault was active.

    Each such request must get a reply in time. If the reply is an error, ``may_refuse`` must allow
    it.
    """

    wrong: Violations
    troubled_until: float = -inf  # every intended fault is mended and settled by then
    _of: dict[str, float] = field(factory=dict, init=False)  # the same for the line of one player

    def trouble(self, until: float, who: str = "", settles_s: float = SETTLES_S) -> None:
        """Record that a fault lasts until the time ``until``.

        If ``who`` is given, the fault affects only this player.
        """
        over = until + settles_s
        if who:
            self._of[person(who)] = max(self._of.get(person(who), -inf), over)
        else:
            self.troubled_until = max(self.troubled_until, over)

    def untroubled(self, since: float, who: str = "") -> bool:
        """Return whether this player has been free of faults since ``since``.

        Only faults that the player can notice count. A fault that began earlier but lasted beyond
        ``since`` counts as well.
        """
        return since > self.troubled_until and since > self._of.get(person(who), -inf)

    def check_status(self, who: str, method: str, path: str, status: int, began: float) -> None:
        """Check the status of the reply to a request that a player sent at ``began``."""
        if status < 400 or may_refuse(method, path, status):
            return
        if self.untroubled(began, who):
            self.wrong.add("refused for nothing", f"{who}: {method} {path} answered {status}")

    def took(self, who: str, what: str, began: float, now: float) -> None:
        """Check that a request, sent at ``began``, got its reply within ``PROMPT_S`` seconds."""
        if now - began > PROMPT_S and self.untroubled(began, who):
            self.wrong.add("nobody waits for ever", f"{who}: {what} took {now - began:.0f} s")

    def unanswered(self, who: str, what: str, began: float) -> None:
        """Record a request that got no reply although its sender did not cancel it."""
        if self.untroubled(began, who):
            self.wrong.add("nobody waits for ever", f"{who}: {what} was not answered")


def person(who: str) -> str:
    """Return the part of a player's name that never changes.

    ``who`` is the name of the player or of a chat session. The suffix of the player's name changes
    when a registration is tried again.
    """
    return who.partition("/")[0].partition("__")[0]
