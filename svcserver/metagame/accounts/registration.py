"""The current registration mode. Spec: 1 §4 Accounts."""

from __future__ import annotations

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.kinds import Kind

MODE = Kind("registration_mode", str)
ONLY = ""  # the key of the only entry


@frozen
class Registration:
    """The registration mode: REGISTRATION_MODE, until an admin sets another."""

    board: Board
    setting: str | None

    def __attrs_post_init__(self) -> None:
        self.board.forget_at_start((MODE, ONLY))

    async def mode(self) -> str | None:
        """The mode in force: set at run time, else REGISTRATION_MODE."""
        found = await self.board.act(lambda sheet: sheet.get(MODE, ONLY), near=[(MODE, ONLY)])
        return self.setting if found is None else found

    async def set(self, mode: str) -> None:
        """Let another count until the only metagame, or all of them, have ended."""
        await self.board.act(lambda sheet: sheet.put(MODE, ONLY, mode))
