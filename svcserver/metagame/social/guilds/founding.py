"""What is known of those who want to found a guild: names checked, signs of life.

Spec: 1 §4 Guilds, Create.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.board.board import Sheet
from svcserver.board.kinds import Kind
from svcserver.board.quota import MOST, Quota
from svcserver.kernel.ids import AccountId
from svcserver.metagame.social.guilds import rules

VALID_S = 900.0
MAX_PAIRS = 5
ACTIVE_S = 60.0


@frozen
class Pair:
    """A name and nameplate that the rules allowed, both in lower case; ``at`` in epoch seconds."""

    at: float
    name: str
    nameplate: str


CHECKED = Kind("guild_names_checked", tuple[Pair, ...], lives_s=VALID_S, most=MOST)
ACTIVE = Kind("guild_founders_heard", float, lives_s=ACTIVE_S, most=MOST, compared=False)
FOUNDED = Quota.of("guilds_founded", 1, rules.CREATE_PAUSE_S)
SENT = Quota.of("guild_invites_sent", rules.MAX_SENT, rules.SENT_S)


@frozen
class Founders:
    """What an open sheet has of them: the last five pairs each player had checked."""

    sheet: Sheet

    def note(self, account_id: AccountId, name: str, nameplate: str) -> None:
        """Remember a validated pair."""
        pair = Pair(self.sheet.now, name.lower(), nameplate.lower())
        self.sheet.put(CHECKED, account_id, (*self._fresh(account_id), pair)[-MAX_PAIRS:])

    def checked(self, account_id: AccountId, name: str, plate: str | None) -> bool:
        """Whether this pair was validated within ``VALID_S``, ignoring case."""
        wanted = (name.lower(), (plate or "").lower())
        return any((one.name, one.nameplate) == wanted for one in self._fresh(account_id))

    def seen(self, account_id: AccountId) -> bool:
        """Whether the player had any name checked lately, or was heard from within 60 s."""
        heard = self.sheet.get(ACTIVE, account_id) is not None
        return heard or bool(self._fresh(account_id))

    def hear(self, account_id: AccountId) -> None:
        """Note a heartbeat or party poll."""
        self.sheet.put(ACTIVE, account_id, self.sheet.now)

    def clear(self, account_id: AccountId) -> None:
        """A founded guild consumes the pairs."""
        self.sheet.drop(CHECKED, account_id)

    def _fresh(self, account_id: AccountId) -> tuple[Pair, ...]:
        pairs = self.sheet.get(CHECKED, account_id) or ()
        return tuple(one for one in pairs if self.sheet.now - one.at < VALID_S)
