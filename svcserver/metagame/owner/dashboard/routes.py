"""The dashboard's page, files, data routes and event stream, and the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from attrs import evolve, field, frozen

from svcserver.edge.invite import decode
from svcserver.edge.joining import NoJoinString, join_string, letter
from svcserver.edge.sending import host_words
from svcserver.kernel.digits import MAX_DIGITS, MAX_WHOLE, whole_in
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.once import Again
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.document import describe
from svcserver.metagame.owner.dashboard.live import LivePages
from svcserver.metagame.owner.dashboard.overview import Overview
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.dashboard.wire import ApiDocument
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes, Row
from svcserver.web.eventstream import EventStreams, Reader
from svcserver.web.request import HttpRequest
from svcserver.web.routes import NO_STORE, Answer, Media, Needed, Page, Redirect, WebRow, bare

# The dashboard's files contain no secret: the page sends the key that the user types only once, to
# get a session cookie.
PAGE = "index.html"
MAIN = "app"  # the module that imports all others
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",  # text can never become markup
    "trusted-types 'none'",
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


STORABLE = HEADERS | {"Cache-Control": "private, max-age=31536000, immutable"}
PLACE = b'="/svc/dashboard/'  # how the addresses of files begin in the page
_IMPORT = re.compile(rb'^import (.+) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(rb"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)


@frozen
class PageFiles:
    """The page's files, and their version, which is part of each file's URL.

    A browser caches a file under a versioned URL permanently, so an unchanged page loads quickly.
    """

    version: str
    replies: Mapping[str, Answer]

    def reply(self, name: str, version: str = "") -> Answer:
        """Return a file of the page; raises Missing.

        The browser is allowed to cache the file if ``version`` is current.
        """
        reply = self.replies.get(name)
        if reply is None:
            raise Missing("the dashboard has no such file")
        return evolve(reply, headers=STORABLE) if version == self.version else reply


@lru_cache(maxsize=1)
def read_files() -> PageFiles:
    """Return the page's files; the result is cached, because tests start many services."""
    bodies = {
        file.name: file.read_bytes()
        for file in files(__package__).joinpath("static").iterdir()
        if Path(file.name).suffix in KINDS
    }
    sources = {Path(name).stem: body for name, body in bodies.items() if name.endswith(".js")}
    modules: dict[str, bytes] = {}
    _join(MAIN, sources, modules)
    bodies[f"{MAIN}.js"] = b"".join(modules.values())
    digest = sha256()
    for name, body in sorted(bodies.items()):
        digest.update(b"%b %d %b" % (name.encode(), len(body), body))
    version = digest.hexdigest()[:16]
    bodies[PAGE] = bodies[PAGE].replace(PLACE, PLACE + version.encode() + b"/")
    replies = {
        name: Answer(200, body, HEADERS, KINDS[Path(name).suffix]) for name, body in bodies.items()
    }
    return PageFiles(version, replies)


def _join(name: str, sources: Mapping[str, bytes], modules: dict[str, bytes]) -> None:
    """Add a JavaScript module to ``modules``, after the modules that it imports.

    The source of each module becomes the body of a function, which is called at once and returns
    the module's exports. So all modules fit into one script, which a browser loads much faster than
    dozens of modules.
    """
    if name in modules:
        return
    source = sources[name]
    for imported in _IMPORT.finditer(source):
        _join(imported[2].decode(), sources, modules)
    body = _EXPORT.sub(b"", _IMPORT.sub(_constants, source))
    named = name.encode(), body, b", ".join(_EXPORT.findall(source))
    modules[name] = b"const $%b = (() => {\n%b\nreturn { %b };\n})();\n" % named


def _constants(imported: re.Match[bytes]) -> bytes:
    names = imported[1].removeprefix(b"* as ").replace(b" as ", b": ")
    return b"const %b = $%b;" % (names, imported[2])


FILE = Media(tuple(kind.partition(";")[0] for kind in KINDS.values()))
NOTHING = Answer(404)
TO_THE_PAGE = Answer(302, b"", HEADERS | {"Location": "/svc/dashboard"})


@frozen
class DashboardPageRoutes:
    """The dashboard's page, styles, scripts and icon."""

    routes: ClassVar[Routes] = Routes(bare, quiet=True)
    files: PageFiles = field(factory=read_files)

    @routes.row("GET", "/", access=Access.NONE, reply=Redirect)
    async def root(self, call: Call) -> Answer:
        """Redirect a browser on this machine to the dashboard; all other clients get 404."""
        request = call.request
        wanted = (request.header(b"accept") or "").lower()
        if "text/html" not in wanted or not request.direct:
            return NOTHING
        return TO_THE_PAGE

    @routes.row("GET", "/svc/dashboard", access=Access.DIRECT, reply=Page)
    async def page(self, call: Call) -> Answer:
        """Return the dashboard to a browser on this machine."""
        return self.files.reply(PAGE)

    @routes.row("GET", "/svc/dashboard/<file>", access=Access.DIRECT, reply=FILE)
    async def part(self, call: Call, file: str) -> Answer:
        """Return one of the dashboard's files."""
        return self.files.reply(file)

    @routes.row("GET", "/svc/dashboard/<version>/<file>", access=Access.DIRECT, reply=FILE)
    async def stored_part(self, call: Call, version: str, file: str) -> Answer:
        """Return one of the dashboard's files, which the browser may cache."""
        return self.files.reply(file, version)


VERSIONS = {"CharacterId": Needed(str), "From": Needed(int), "To": Needed(int)}


@frozen
class DashboardRoutes:
    """The dashboard's routes for single requests; ``LiveRoutes`` streams live data."""

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
        """Compare versions ``?From=`` and ``?To=`` of the character ``?CharacterId=``."""
        diff = await self.acts.save_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(diff), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardLoadoutDiff",
        role=Role.HELPER,
        reply=wire.SaveDiffReply,
        query=VERSIONS,
    )
    async def loadout_diff(self, call: Call) -> Answer:
        """Compare versions ``?From=`` and ``?To=`` of a character's loadouts."""
        diff = await self.acts.loadout_diff(*await self._versions(call))
        return Answer(200, wire.show_diff(diff), NO_STORE)

    @routes.row(
        "GET", "/svc/api/DashboardEntitlements", role=Role.HELPER, reply=wire.EntitlementNames
    )
    async def entitlements(self, call: Call) -> Answer:
        """List the entitlements that this host can grant, sorted."""
        await self.reads.take_of(call)
        return Answer(200, {"names": await self.acts.entitlements()}, NO_STORE)

    async def _versions(self, call: Call) -> tuple[CharacterId, int, int]:
        await self.reads.take_of(call)
        character_id = call.request.argument("CharacterId")
        if not character_id:
            raise Malformed("CharacterId is missing", code="bad_request")
        old, new = (_whole(call, name) for name in ("From", "To"))
        return CharacterId(character_id), old, new

    @routes.row(
        "POST",
        "/svc/api/DashboardJoin",
        body=wire.JoinRequest,
        reply=wire.JoinString,
        bad_json=BAD_JSON,
    )
    async def join(self, call: Call[wire.JoinRequest]) -> Answer:
        """Return an invite code's join string, with a QR code."""
        [invite] = await self.acts.for_invites([call.body.Code], self._join)
        return Answer(200, invite, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardJoinStrings",
        body=wire.JoinsRequest,
        reply=wire.JoinStrings,
        bad_json=BAD_JSON,
    )
    async def join_all(self, call: Call[wire.JoinsRequest]) -> Answer:
        """Return the join string of each invite code, with a QR code."""
        await self.reads.take(call.request.peer)
        invites = await self.acts.for_invites(call.body.Codes, self._join)
        return Answer(200, {"invites": invites}, NO_STORE)

    def _join(self, code: str) -> wire.JoinString:
        folder = self.state.folder
        try:
            text = None if folder is None else join_string(folder, code)
        except NoJoinString as error:
            return _no_join_string(str(error))
        if folder is None:
            return _no_join_string("the metagame does not know the host's folder")
        if text is None:
            return _no_join_string("only this machine can reach this host")
        import segno  # most metagames never need it

        picture = segno.make(text, error="m").matrix
        rows = ["".join(map(str, row)) for row in picture]
        return {
            "join": text,
            "qr": rows,
            "letter": letter(folder, text),
            "why": None,
            "words": host_words(decode(text)),
        }


def _no_join_string(why: str) -> wire.JoinString:
    return {"join": None, "qr": None, "letter": [], "why": why, "words": ""}


def _whole(call: Call, name: str) -> int:
    number = whole_in(call.request.argument(name) or "", MAX_DIGITS)
    if number is None:
        raise Malformed(f"{name} must be a whole number", code="bad_request")
    return min(number, MAX_WHOLE)


@frozen
class HostHistoryRoutes:
    """The route that returns the host's load and the services' availability over time."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY)
    overview: Overview
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardHistory",
        role=Role.HELPER,
        reply=wire.HostHistoryReply,
        query={"range": wire.HistoryRange},
        quiet=True,
    )
    async def history(self, call: Call) -> Answer:
        """Return the machine's load and the services' availability over the last day or week."""
        await self.reads.take_of(call)
        try:
            scope = wire.HistoryRange(call.request.argument("range") or wire.HistoryRange.DAY)
        except ValueError:
            raise Malformed("range must be day or week", code="bad_request") from None
        return Answer(200, self.overview.history(scope), NO_STORE)


EVENTS = "text/event-stream"
MOST = 64  # characters of a name or an id
OWNERS = tuple(("page", page) for page in ("log", "invites", "console", "backups", "settings"))


Admit = Callable[[Row, HttpRequest, Mapping[str, str]], Awaitable[object]]
"""A function that raises a refusal if the request's credential does not suffice for the route."""


@frozen
class LiveRoutes:
    """The event stream that updates the dashboard's pages."""

    routes: ClassVar[Routes] = Routes(worded)
    pages: LivePages
    streams: EventStreams
    admit: Admit

    @routes.row(
        "GET",
        "/svc/api/DashboardEvents",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        owners=OWNERS,
        reply=Media((EVENTS,)),
        query={"page": Needed(str), "Account": str, "Server": str, "After": str},
        quiet=True,
    )
    async def events(self, call: Call) -> Answer:
        """Stream a page's data as server-sent events.

        The request needs ``Accept: text/event-stream``. For a page with a list, an event only
        means that the list may have changed. For the account page, ``Account`` is a name or id.
        For the console page (owners only), ``Server`` is a game server; the stream sends the output
        of that server after the cursor ``After``. If an account opens a ninth stream, its oldest
        stream ends with an event called full.
        """
        _check_stream(call)
        page, who, server, cursor = (
            (call.request.argument(name) or "")[:MOST]
            for name in ("page", "Account", "Server", "After")
        )
        look = self.pages.reader_for_page(page, server if page == "console" else who, cursor)
        if look is None:
            raise Malformed("there is no such live page", code="bad_request")
        call.request.hopeless = True  # a stopping service does not wait for this request
        [row] = self.routes.rows
        caller = call.caller
        reader = Reader(
            caller.account or "",
            caller.role is Role.OWNER,
            lambda: self.admit(row, call.request, {}),
        )
        return self.streams.answer(look, reader)


def _check_stream(call: Call) -> None:
    if EVENTS not in (call.request.header(b"accept") or "") or call.request.method != "GET":
        raise Malformed(f"this stream needs the header Accept: {EVENTS}", code="bad_request")


@frozen
class ApiDocumentRoutes:
    """The OpenAPI document's route; ``rows`` returns all mounted routes, including this one."""

    routes: ClassVar[Routes] = Routes(bare)
    rows: Callable[[], Sequence[WebRow]]
    version: str

    @routes.row(
        "GET",
        "/svc/api/DashboardOpenApi",
        access=Access.ADMIN_KEY,
        reply=ApiDocument,
        quiet=True,
    )
    async def api_document(self, call: Call) -> Answer:
        """Return an OpenAPI 3.1 document of all routes that the settings enable."""
        return Answer(200, describe(self.rows(), self.version), NO_STORE)
