"""A small game folder, a fake metagame that knows two keys, and a content server's client."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import treq
from treq.client import HTTPClient
from treq.testing import StubTreq
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from svcserver.content.game_files import ServedGameFiles
from svcserver.content.manifest import Manifest, ManifestEntry, make
from svcserver.content.service import Sender, make_handler
from svcserver.content.settings import ContentSettings
from svcserver.web.files import Transfers
from tests.support.browser import Page
from tests.support.wire import browsing

ANN, BOB = "UUK_ann", "UUK_bob"
BODY = bytes(range(256)) * 20  # 5,120 bytes


class Metagame(Resource):
    """A fake metagame that answers ``GetUserInfo``, or never answers if ``silent``."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.status: int | None = None
        self.body: bytes | None = None
        self.silent = False
        self.waiting: list[Any] = []

    def render(self, request: Any) -> Any:
        assert request.path == b"/svc/api/GetUserInfo"
        key = request.getHeader("x-svc-user-api-key")
        self.requests.append(key)
        if self.silent:
            self.waiting.append(request)
            return NOT_DONE_YET
        return self.answer(request)

    def answer(self, request: Any) -> bytes:
        key = request.getHeader("x-svc-user-api-key")
        names = {ANN: "ann", BOB: "bob"}
        if self.status is not None:
            request.setResponseCode(self.status)
        elif key not in names:
            request.setResponseCode(401)
            return b""
        if self.body is not None:
            return self.body
        name = names.get(key, "ann")
        text = f'{{"UserId":"UID-{name}","Username":"{name}","IsAdmin":false}}'
        return text.encode()

    def release(self) -> None:
        for request in self.waiting:
            request.write(self.answer(request))
            request.finish()
        self.waiting = []


def write(folder: Path, path: str, body: bytes) -> ManifestEntry:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body)
    return ManifestEntry(path, len(body), hashlib.sha256(body).hexdigest())


async def _read(response: Any) -> Page:
    reply = await response
    pairs = reply.headers.getAllRawHeaders()
    headers = {name.decode().lower(): values[0].decode() for name, values in pairs}
    if isinstance(reply.length, int):  # the client removes the header
        headers.setdefault("content-length", str(reply.length))
    return Page(reply.code, await treq.content(reply), headers)


class DeskCase(SynchronousTestCase):
    """A content server on a real folder; ``self.browse(method, path, key=...)`` uses no socket."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = self.root / "game"
        self.folder.mkdir()
        self.entries = self.files()
        self.manifest: Manifest = make("1.4.4", self.entries.values())
        self.clock = Clock()
        self.clock.advance(1_000)
        self.metagame = Metagame()
        self.stub = StubTreq(self.metagame)
        settings = ContentSettings(game_dir=self.folder, **self.more())
        self.game_files = ServedGameFiles(self.folder, self.manifest)
        self.game_files.check()
        http: HTTPClient = self.stub  # type: ignore[assignment]  # the same methods
        self.desk = make_handler(settings, self.game_files, http, self.clock)
        self.transfers = Transfers()
        self.site = browsing(Sender(self.desk, self.transfers))

    def files(self) -> dict[str, ManifestEntry]:
        names = {"A/b.bin": BODY, "empty.txt": b"", "Maps/Isle one.umap": b"isle"}
        return {name: write(self.folder, name, body) for name, body in names.items()}

    def more(self) -> dict[str, Any]:
        return {}

    def ask(
        self, method: str, path: str, *, key: str | None = None, headers: Any = None
    ) -> Deferred[Page]:
        head = dict(headers or {})
        if key is not None:
            head["x-svc-user-api-key"] = key
        sent = self.site.request(method, "http://127.0.0.1" + path, headers=head)
        page: Deferred[Page] = Deferred.fromCoroutine(_read(sent))
        self.flush()
        return page

    def flush(self) -> None:
        for _ in range(4):
            self.site.flush()
            self.stub.flush()

    def browse(
        self, method: str, path: str, *, key: str | None = None, headers: Any = None
    ) -> Page:
        return self.successResultOf(self.ask(method, path, key=key, headers=headers))

    def get(self, path: str, *, key: str | None = ANN, **headers: str) -> Page:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.browse("GET", "/content/v1/files/" + path, key=key, headers=names)
