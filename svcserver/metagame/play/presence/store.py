"""Who is online: a player is for 90 s after the last heartbeat. On the board.

Spec: 1 §4 Status, heartbeat, fixed replies; 2 §4 ServerStatus.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.board.board import Board, Sheet
from svcserver.board.kinds import Kind
from svcserver.board.waiting import dispensable
from svcserver.kernel.ids import AccountId
from svcserver.metagame.play.presence.rules import Beat

ONLINE_S = 90.0


# not sealed: a forged one shows somebody online, and grants nothing
BEATS = Kind("online", Beat, lives_s=ONLINE_S, compared=False, listed=True, sealed=False)


@frozen
class Online:
    """Everybody's last heartbeat. ``also_heard``: what else it keeps alive, in the same sheet."""

    board: Board
    also_heard: tuple[Callable[[Sheet, AccountId], None], ...] = ()

    def hear(self, account_id: AccountId, map_path: str, state: str) -> Deferred[None]:
        """Keep a heartbeat; blind, so it never runs again.

        One that cannot be kept is followed by another.
        """

        def work(sheet: Sheet) -> None:
            sheet.put(BEATS, account_id, Beat(account_id, map_path, state, sheet.now))
            for follow in self.also_heard:
                follow(sheet, account_id)

        return dispensable(self.board.act(work), None)

    def forget(self, account_id: AccountId) -> Deferred[None]:
        """The player is no longer online."""
        return self.board.act(lambda sheet: sheet.drop(BEATS, account_id))

    def all(self) -> Deferred[list[Beat]]:
        """The last heartbeat of everyone online."""
        return self.board.act(lambda sheet: [beat for _, beat in sheet.each(BEATS)])

    def looked(self) -> Deferred[tuple[float, list[Beat]]]:
        """When it was looked (epoch seconds of the board's clock), and what ``all`` gives."""
        return self.board.act(lambda sheet: (sheet.now, [beat for _, beat in sheet.each(BEATS)]))

    def count(self) -> Deferred[int]:
        """How many players are online."""
        return self.board.act(lambda sheet: sheet.count(BEATS))
