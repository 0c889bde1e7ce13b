"""What a host that nothing breaks may refuse; whatever else it refuses is wrong.

Without this a host that let nobody in would break no rule: players take every refusal as it is.
"""

from __future__ import annotations

import re
from math import inf

from attrs import define, field

from simulation.outcomes import Violations

SETTLES_S = 60.0  # after a fault has been mended its traces may be seen for so long
PROMPT_S = 15.0  # in which an answer comes while nothing is broken
# whatever else the state of things: what the history can know is asked by the acts themselves
MAY_REFUSE: dict[str, tuple[int, ...]] = {
    "POST /svc/api/Register": (429,),  # the gateway counts the tries while it was broken, too
    "POST /candidate/join/*": (404,),  # the party's candidate is another by now
    "GET /candidate/status": (404,),  # it was cancelled meanwhile
    "PUT /party/invite": (409,),  # already there, full, or declined
    "PUT /party/invite/accept/*": (404, 409),  # the invite has ended; the party is full
    "PUT /party/member/promote/*": (404,),  # somebody has left
    "PUT /slayerlink/invite": (404, 409),  # no friends any more; already linked or invited
    "POST /slayerlink/invite": (404, 409),  # the invite has ended; the slot is taken
    "DELETE /slayerlink/links": (404,),  # the other has ended it
    "POST /guild": (403, 409, 429),  # as before; one new guild in ten minutes
    "POST /guild/invite/accept/*": (404, 409),  # the invite has ended; in a guild since
    "PUT /guild/invite/*": (403, 404, 409, 429),  # by rank; already there; declined lately
    "PUT /guild/rank/*/*": (403, 404),  # by the leader alone; the other has left
    "DELETE /guild/player": (404, 409),  # in none any more; a leader cannot leave
    "DELETE /guild/player/*": (403, 404, 409),  # by the leader alone; the other has left
    "DELETE /guild/*": (403, 404),  # by the leader alone
}
_MAY_REFUSE = [
    (re.compile(what.replace("*", "[^/?]+")), statuses) for what, statuses in MAY_REFUSE.items()
]


def may_refuse(method: str, path: str, status: int) -> bool:
    """Whether a right host may answer so to a player whose session runs."""
    what = f"{method} {path.partition('?')[0]}"
    return any(status in known and shape.fullmatch(what) for shape, known in _MAY_REFUSE)


@define(eq=False)
class Answers:
    """What is asked while nothing is broken must be answered, and not be refused for nothing."""

    wrong: Violations
    troubled_until: float = -inf  # whatever was broken on purpose is mended, and settled, by then
    _of: dict[str, float] = field(factory=dict, init=False)  # the same of one player's own line

    def trouble(self, until: float, who: str = "", settles_s: float = SETTLES_S) -> None:
        """Something is broken until then; ``who``: it is this player's own line alone."""
        over = until + settles_s
        if who:
            self._of[person(who)] = max(self._of.get(person(who), -inf), over)
        else:
            self.troubled_until = max(self.troubled_until, over)

    def untroubled(self, since: float, who: str = "") -> bool:
        """Whether nothing has been broken since then that this player could notice."""
        return since > self.troubled_until and since > self._of.get(person(who), -inf)

    def heard(self, who: str, method: str, path: str, status: int, began: float) -> None:
        """The answer to what was asked at ``began`` by somebody whose session runs."""
        if status < 400 or may_refuse(method, path, status):
            return
        if self.untroubled(began, who):
            self.wrong.add("refused for nothing", f"{who}: {method} {path} answered {status}")

    def took(self, who: str, what: str, began: float, now: float) -> None:
        """What was asked at ``began`` has been answered."""
        if now - began > PROMPT_S and self.untroubled(began, who):
            self.wrong.add("nobody waits for ever", f"{who}: {what} took {now - began:.0f} s")

    def given_up(self, who: str, what: str, began: float) -> None:
        """Somebody got no answer, and did not hang up themselves."""
        if self.untroubled(began, who):
            self.wrong.add("nobody waits for ever", f"{who}: {what} was not answered")


def person(who: str) -> str:
    """Whose a name of a chat session, or an earlier name of the player, is."""
    return who.partition("/")[0].partition("__")[0]
