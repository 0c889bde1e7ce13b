"""``svc-content``: game files, branding and news for launchers."""

from typing import Any

from attrs import define
from treq.client import HTTPClient
from twisted.application.service import MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.resource import IResource

from svcserver.content.branding import Branding
from svcserver.content.game_files import ServedGameFiles
from svcserver.content.keycheck import KeyCheck
from svcserver.content.launcher_files import LauncherFiles
from svcserver.content.manifest import BadManifest
from svcserver.content.manifest_builder import load_manifest
from svcserver.content.news import NewsFile
from svcserver.content.routes import PATHS, ContentHandler, ContentReply, DownloadSlots, FileAnswer
from svcserver.content.settings import ContentSettings, check
from svcserver.kernel.counters import Counters, Figure
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.web.files import Transfer, Transfers, sweeping
from svcserver.web.logs import json_lines
from svcserver.web.metrics import CountingHandler, show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.serving import Listening, StartWarnings, TopService
from svcserver.web.site import HttpFactory

log = Logger()
NAME = "svc-content"


class Options(ServiceOptions):
    """The command line, whose only option is ``--env-file``."""

    name, shape = NAME, ContentSettings
    settings: ContentSettings
    longdesc = 'Verified game files and news. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        check(self.settings)
        return []


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the content server as a service."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    game_files = open_game_files(settings)
    pool = HTTPConnectionPool(reactor)
    http = HTTPClient(Agent(reactor, connectTimeout=5, pool=pool))
    top = TopService(json_lines(settings.log_level, reactor))
    handler = make_handler(settings, game_files, http, reactor, top.counters)
    transfers = Transfers()
    counted = CountingHandler(Sender(handler, transfers), top.counters, "downloads", PATHS)
    factory = HttpFactory(counted, reactor, top.counters, proxy_headers=(GATEWAY,))
    StartWarnings(options.warnings).setServiceParent(top)
    ContentService(game_files, pool).setServiceParent(top)
    sweeping(transfers, reactor).setServiceParent(top)
    for host in settings.bind_hosts:
        address = MultiService()  # two parts with the same name need separate parents
        Listening(reactor, "content", settings.port, host, factory).setServiceParent(address)
        address.setServiceParent(top)
    show_figures(top, reactor, "content", settings.metrics_port, figures(handler))
    return top


def figures(handler: ContentHandler) -> dict[str, Figure]:
    """Return the metrics on METRICS_PORT by name; each scrape reads the current values."""
    totals = handler.totals
    return {
        "svc_content_downloads_running": Figure("Downloads now.", handler.slots.running),
        "svc_content_downloads_complete": Figure(
            "Completed downloads.", lambda: totals.complete, counts=True
        ),
        "svc_content_downloads_cut": Figure(
            "Downloads that were cut off.", lambda: totals.cut, counts=True
        ),
        "svc_content_bytes_sent": Figure(
            "Bytes of files that were sent.", lambda: totals.bytes, counts=True
        ),
    }


def make_handler(
    settings: ContentSettings,
    game_files: ServedGameFiles,
    http: HTTPClient,
    clock: IReactorTime,
    counters: Counters | None = None,
) -> ContentHandler:
    """Return the handler of all routes, with its dependencies."""
    accepted_s = float(settings.auth_cache_s)
    keys = KeyCheck(http, clock, settings.metagame_url, accepted_s, counters or Counters())
    slots = DownloadSlots(settings.streams_per_account, settings.streams_total)
    branding, news = Branding(settings.branding_dir), NewsFile(settings.news_file)
    launcher = LauncherFiles.from_folder(settings.launcher_dir)
    secret, program = settings.gateway_secret, _program(settings, game_files)
    return ContentHandler(game_files, keys, slots, branding, news, clock, secret, launcher, program)


def _program(settings: ContentSettings, game_files: ServedGameFiles) -> str:
    """Return the program that launchers start, or "" if the manifest does not contain it."""
    program = settings.game_program
    if not program or program in game_files.manifest.files:
        return program
    log.warn(
        "CONTENT_GAME_PROGRAM {program} is not in the manifest, so launchers do not start it",
        program=program,
    )
    return ""


def open_game_files(settings: ContentSettings) -> ServedGameFiles:
    """Return the manifest's files; exit with a one-line message if the manifest is invalid."""
    path = settings.manifest_file
    try:
        return ServedGameFiles(settings.game_dir, load_manifest(path))
    except BadManifest as why:
        raise failed_start(
            f"{NAME}: CONTENT_MANIFEST {path} {why}; create it again with: "
            f"svcctl content manifest {settings.game_dir} --out {path}"
        ) from None


@define(eq=False, slots=False)
class ContentService(Service):
    """The service that checks the game files when it starts, and closes connections on stop."""

    game_files: ServedGameFiles
    pool: HTTPConnectionPool

    def startService(self) -> None:
        Service.startService(self)
        self.game_files.check()

    def stopService(self) -> Deferred[Any]:
        Service.stopService(self)
        closed: Deferred[Any] = self.pool.closeCachedConnections()
        return closed


@define
class Sender:
    """The content server's ``HttpHandler``, which also sends the game files."""

    handler: ContentHandler
    transfers: Transfers

    @property
    def max_json(self) -> int:
        """Return the maximum size of a body, in bytes."""
        return self.handler.max_json

    def resource(self) -> IResource:
        """Return the content server's routes as a ``twisted.web`` resource."""
        from svcserver.web.klein_site import AppResource  # our own channel needs no Klein

        routes = [
            ("GET", path.decode() + ("<path:name>" if path.endswith(b"/") else ""))
            for path in PATHS
        ]
        return AppResource(self, routes, (GATEWAY,))

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return self.handler.early(request, length)

    def page(self, status: int, why: BaseException | None) -> Answer:
        return self.handler.page(status, why)

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Answer one request; fails only with CancelledError."""
        reply = self.handler.answer(request)
        if isinstance(reply, Deferred):
            return reply.addCallback(self._as_answer)
        return self._as_answer(reply)

    def _as_answer(self, reply: ContentReply) -> Answer:
        if not isinstance(reply, FileAnswer):
            return reply
        transfer = Transfer(reply.file, reply.span, reply.ended, reply.spoiled, self.transfers)
        return Answer(reply.head.status, transfer, reply.head.headers)
