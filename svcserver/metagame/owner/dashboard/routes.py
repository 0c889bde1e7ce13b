"""The admin routes of the dashboard that the specification does not have.

All take the admin key from direct callers and answer ``no-store``, as those of the
specification do. Spec: 2 §4 Management API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import frozen

from svcserver.edge.joining import NoJoinString, join_string, letter
from svcserver.kernel.digits import MAX_DIGITS, MAX_WHOLE, whole_in
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

MAX_TEXT = 64


@frozen
class DashboardRoutes:
    """The rows that only the dashboard's pages ask for."""

    routes: ClassVar[Routes] = Routes(worded)
    shown: DashboardState
    acts: DashboardActs
    now: Callable[[], float]
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardHealth",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        when=lambda settings: settings.backend_health,
        reply=wire.HealthOverTime,
        query=("after",),
        quiet=True,
    )
    async def health(self, call: Call) -> Answer:
        """Health over the last hour, from ``?after=`` (epoch seconds)."""
        text = call.request.argument("after") or "0"
        try:
            after = float(text)
        except ValueError:
            raise Malformed("after must be a number", code="bad_request") from None
        samples = self.shown.health.after(after)
        return Answer(200, wire.show_health(samples, self.now()), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardChat",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.ChatReply,
        quiet=True,
    )
    async def chat(self, call: Call) -> Answer:
        """Chat rooms and their occupants; never what is written there."""
        figures = self.shown.chat
        shown = await self.acts.chat(None if figures is None else figures())
        return Answer(200, shown, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardLog",
        access=Access.ADMIN_KEY,
        reply=wire.LogReply,
        query=("after",),
        quiet=True,
    )
    async def log(self, call: Call) -> Answer:
        """The last lines of the metagame's log after line ``?after=``, without secrets."""
        after = _whole(call, "after", "0", 10)
        reply: wire.LogReply = {"last": self.shown.log.count, "lines": self.shown.log.after(after)}
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardSearch",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.SearchReply,
        query=("Text",),
        quiet=True,
    )
    async def search(self, call: Call) -> Answer:
        """Accounts whose name or id holds ``?Text=``, by name."""
        await self.reads.take(call.request.peer)
        text = (call.request.argument("Text") or "").strip()
        if not 1 <= len(text) <= MAX_TEXT:
            raise Malformed("Text must be 1 to 64 characters", code="bad_request")
        return Answer(200, wire.show_found(await self.acts.search(text)), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardSaveDiff",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.SaveDiffReply,
        query=("CharacterId", "From", "To"),
    )
    async def save_diff(self, call: Call) -> Answer:
        """What differs between versions ``?From=`` and ``?To=`` of ``?CharacterId=``."""
        found = await self.acts.save_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(found), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardLoadoutDiff",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.SaveDiffReply,
        query=("CharacterId", "From", "To"),
    )
    async def loadout_diff(self, call: Call) -> Answer:
        """The differences between two versions of the character's loadout."""
        found = await self.acts.loadout_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(found), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardEntitlements",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.EntitlementNames,
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
        old, new = (_whole(call, name, "", MAX_DIGITS) for name in ("From", "To"))
        return CharacterId(character_id), old, new

    @routes.row(
        "POST",
        "/svc/api/DashboardJoin",
        access=Access.ADMIN_KEY,
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
        folder = self.shown.folder
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


def _whole(call: Call, name: str, default: str, digits: int) -> int:
    found = whole_in(call.request.argument(name) or default, digits)
    if found is None:
        raise Malformed(f"{name} must be a whole number", code="bad_request")
    return min(found, MAX_WHOLE)
