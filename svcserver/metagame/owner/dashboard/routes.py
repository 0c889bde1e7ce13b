"""The admin routes made for the dashboard: what no route of the specification shows.

All take the admin key from direct callers and answer ``no-store``, as their neighbours
do. Spec: 2 §4 Management API.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypedDict

import segno
from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.edge.joining import NoJoinString, join_string
from svcserver.kernel import json
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed, Missing, TooMany
from svcserver.metagame.accounts.entries import AccountEntry, entry
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings.characters.rules import MAX_VERSION, MAX_VERSION_DIGITS
from svcserver.metagame.belongings.loadouts.store import SqlRack
from svcserver.metagame.belongings.savehistory.store import SqlArchive
from svcserver.metagame.owner.dashboard.diffs import MAX_SIZE, Change, difference
from svcserver.metagame.owner.dashboard.history import EVERY_S, HealthSample
from svcserver.metagame.owner.dashboard.shown import ChatRoom, Shown
from svcserver.metagame.owner.dashboard.store import search
from svcserver.web.routes import BAD_JSON, NO_STORE, Access, Answer, Call, Routes, worded

Saved = Callable[[Connection, CharacterId, int], bytes | None]
"""The JSON of one version of a character's, or None."""

FOUND = 50  # accounts a search lists
MAX_TEXT = 64


class SearchReply(TypedDict):
    """``more``: there are others beyond the first fifty."""

    accounts: list[AccountEntry]
    more: bool


class HealthOverTime(TypedDict):
    """Samples of the last hour; ``now`` is the server's clock (epoch seconds)."""

    everySeconds: float
    now: float
    samples: list[HealthSample]


class ChatReply(TypedDict):
    """``on`` is false while the chat is off or could not start."""

    on: bool
    connections: int
    people: int
    roomCount: int
    rooms: list[ChatRoom]


class LogReply(TypedDict):
    """Lines ``last - len(lines) + 1`` to ``last`` since the start."""

    last: int
    lines: list[str]


class SaveDiffReply(TypedDict):
    """``tooLarge``: nothing was compared."""

    tooLarge: bool
    changes: list[Change]
    more: int


class JoinString(TypedDict):
    """``qr``: a row of the picture each, 1 is dark; ``why`` there is no string."""

    join: str | None
    qr: list[str] | None
    why: str | None


@frozen
class JoinWish:
    """An invite code that exists."""

    Code: str


def _watched(settings: Any) -> bool:
    return bool(settings.backend_health)


@frozen
class Dashboard:
    """``busy`` says how long an address must wait before another costly read (seconds)."""

    routes: ClassVar[Routes] = Routes(worded)
    shown: Shown
    ledger: Ledger
    now: Callable[[], float]
    busy: Callable[[str], float]

    @routes.row(
        "GET",
        "/svc/api/DashboardHealth",
        access=Access.ADMIN_KEY,
        when=_watched,
        reply=HealthOverTime,
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
        reply: HealthOverTime = {
            "everySeconds": EVERY_S,
            "now": self.now(),
            "samples": self.shown.health.after(after),
        }
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET", "/svc/api/DashboardChat", access=Access.ADMIN_KEY, reply=ChatReply, quiet=True
    )
    async def chat(self, call: Call) -> Answer:
        """Rooms and who is in them; never what is said."""
        figures = self.shown.chat
        if figures is None:
            nobody: ChatReply = {
                "on": False,
                "connections": 0,
                "people": 0,
                "roomCount": 0,
                "rooms": [],
            }
            return Answer(200, nobody, NO_STORE)
        reply: ChatReply = {"on": True, **figures()}
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardLog",
        access=Access.ADMIN_KEY,
        reply=LogReply,
        query=("after",),
        quiet=True,
    )
    async def log(self, call: Call) -> Answer:
        """The last lines of the metagame's log after line ``?after=``, without secrets."""
        after = _whole(call, "after", "0", 10)
        reply: LogReply = {"last": self.shown.log.count, "lines": self.shown.log.after(after)}
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardSearch",
        access=Access.ADMIN_KEY,
        reply=SearchReply,
        query=("Text",),
        quiet=True,
    )
    async def search(self, call: Call) -> Answer:
        """Accounts whose name or id holds ``?Text=``, by name."""
        self._not_too_often(call)
        text = (call.request.argument("Text") or "").strip()
        if not 1 <= len(text) <= MAX_TEXT:
            raise Malformed("Text must be 1 to 64 characters", code="bad_request")
        found = await self.ledger.read(lambda tx: search(tx, text, FOUND + 1))
        reply: SearchReply = {
            "accounts": [entry(*one) for one in found[:FOUND]],
            "more": len(found) > FOUND,
        }
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardSaveDiff",
        access=Access.ADMIN_KEY,
        reply=SaveDiffReply,
        query=("CharacterId", "From", "To"),
    )
    async def save_diff(self, call: Call) -> Answer:
        """What differs between versions ``?From=`` and ``?To=`` of ``?CharacterId=``."""

        def saved(tx: Connection, character_id: CharacterId, version: int) -> bytes | None:
            document = SqlArchive(tx).document(character_id, version)
            return None if document is None else document.literal

        return await self._diff(call, saved)

    @routes.row(
        "GET",
        "/svc/api/DashboardLoadoutDiff",
        access=Access.ADMIN_KEY,
        reply=SaveDiffReply,
        query=("CharacterId", "From", "To"),
    )
    async def loadout_diff(self, call: Call) -> Answer:
        """The same of the loadouts: slots by number, and the persistent part."""

        def saved(tx: Connection, character_id: CharacterId, version: int) -> bytes | None:
            elements = SqlRack(tx).version(character_id, version)
            if elements is None:
                return None
            return json.dump({name: json.Fragment(elements[name]) for name in sorted(elements)})

        return await self._diff(call, saved)

    async def _diff(self, call: Call, saved: Saved) -> Answer:
        self._not_too_often(call)
        character_id = call.request.argument("CharacterId")
        if not character_id:
            raise Malformed("CharacterId is missing", code="bad_request")
        versions = [_whole(call, name, "", MAX_VERSION_DIGITS) for name in ("From", "To")]

        def work(tx: Connection) -> SaveDiffReply:
            before, after = (saved(tx, character_id, one) for one in versions)
            if before is None or after is None:
                raise Missing("no such version", code="not_found")
            if max(len(before), len(after)) > MAX_SIZE:
                return {"tooLarge": True, "changes": [], "more": 0}
            return {"tooLarge": False, **difference(before, after)}

        return Answer(200, await self.ledger.read(work), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardJoin",
        access=Access.ADMIN_KEY,
        body=JoinWish,
        reply=JoinString,
        bad_json=BAD_JSON,
    )
    async def join(self, call: Call) -> Answer:
        """The string a player's launcher takes, and its picture, for an invite code."""
        code = call.body.Code
        if await self.ledger.read(lambda tx: SqlAccounts(tx).invite(code)) is None:
            raise Missing("there is no such invite code", code="not_found")
        return Answer(200, self._join(code), NO_STORE)

    def _join(self, code: str) -> JoinString:
        folder = self.shown.folder
        try:
            text = None if folder is None else join_string(folder, code)
        except NoJoinString as why:
            return {"join": None, "qr": None, "why": str(why)}
        if text is None:
            return {"join": None, "qr": None, "why": "no gateway here: give the code alone"}
        picture = segno.make(text, error="m").matrix
        return {"join": text, "qr": ["".join(map(str, row)) for row in picture], "why": None}

    def _not_too_often(self, call: Call) -> None:
        wait = self.busy(call.request.peer)
        if wait > 0:
            raise TooMany(retry_after_s=max(1, round(wait)))


def _whole(call: Call, name: str, default: str, digits: int) -> int:
    text = call.request.argument(name) or default
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise Malformed(f"{name} must be a whole number", code="bad_request")
    return min(int(text), MAX_VERSION)
