"""The admin routes of the dashboard that the specification does not have.

All take the admin key from direct callers and answer ``no-store``, as those of the
specification do. Spec: 2 §4 Management API.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.edge.joining import NoJoinString, join_string, letter
from svcserver.kernel.digits import MAX_DIGITS, MAX_WHOLE, whole_in
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.once import Again
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, Needed

VERSIONS = {"CharacterId": Needed(str), "From": Needed(int), "To": Needed(int)}


@frozen
class DashboardRoutes:
    """What the pages ask for once; what they are told as it changes is in live.py."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    state: DashboardState
    acts: DashboardActs
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardSaveDiff",
        role=Role.HELPER,
        reply=wire.SaveDiffReply,
        query=VERSIONS,
    )
    async def save_diff(self, call: Call) -> Answer:
        """What differs between versions ``?From=`` and ``?To=`` of ``?CharacterId=``."""
        found = await self.acts.save_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(found), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardLoadoutDiff",
        role=Role.HELPER,
        reply=wire.SaveDiffReply,
        query=VERSIONS,
    )
    async def loadout_diff(self, call: Call) -> Answer:
        """What differs between versions ``?From=`` and ``?To=`` of a character's loadouts."""
        found = await self.acts.loadout_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(found), NO_STORE)

    @routes.row(
        "GET", "/svc/api/DashboardEntitlements", role=Role.HELPER, reply=wire.EntitlementNames
    )
    async def entitlements(self, call: Call) -> Answer:
        """The entitlements that can be granted here, by name."""
        await self.reads.take(call.request.peer)
        return Answer(200, {"names": await self.acts.entitlements()}, NO_STORE)

    async def _versions(self, call: Call) -> tuple[CharacterId, int, int]:
        await self.reads.take(call.request.peer)
        character_id = call.request.argument("CharacterId")
        if not character_id:
            raise Malformed("CharacterId is missing", code="bad_request")
        old, new = (_whole(call, name) for name in ("From", "To"))
        return CharacterId(character_id), old, new

    @routes.row(
        "POST",
        "/svc/api/DashboardJoin",
        body=wire.JoinWish,
        reply=wire.JoinString,
        bad_json=BAD_JSON,
    )
    async def join(self, call: Call[wire.JoinWish]) -> Answer:
        """The join string for an invite code, and its QR code."""
        code = call.body.Code
        await self.acts.check_invite(code)
        return Answer(200, self._join(code), NO_STORE)

    def _join(self, code: str) -> wire.JoinString:
        folder = self.state.folder
        try:
            text = None if folder is None else join_string(folder, code)
            said = letter(folder, text) if folder is not None and text is not None else []
        except NoJoinString as why:
            return {"join": None, "qr": None, "letter": [], "why": str(why)}
        if text is None:
            why_none = "no gateway here: give the code alone"
            return {"join": None, "qr": None, "letter": [], "why": why_none}
        import segno  # most metagames never draw one

        picture = segno.make(text, error="m").matrix
        rows = ["".join(map(str, row)) for row in picture]
        return {"join": text, "qr": rows, "letter": said, "why": None}


def _whole(call: Call, name: str) -> int:
    found = whole_in(call.request.argument(name) or "", MAX_DIGITS)
    if found is None:
        raise Malformed(f"{name} must be a whole number", code="bad_request")
    return min(found, MAX_WHOLE)
