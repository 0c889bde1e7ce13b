"""One host of the player's: does what its machine asks for, and says how things are."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.secrets import Secret
from svcserver.launcher import accounts, key_and_passport, starting, words
from svcserver.launcher.asking import HostClient
from svcserver.launcher.fetching import CannotFetch, KeyRefused
from svcserver.launcher.files_job import FilesJob, NoListing, damage
from svcserver.launcher.game_folder import GameFolder, Stopped, one_name
from svcserver.launcher.host_list import HostRecord
from svcserver.launcher.host_news import HostNews
from svcserver.launcher.keystore import KeyStore
from svcserver.launcher.playing import Game
from svcserver.launcher.runners import Runner
from svcserver.launcher.stages import Host, Inputs, Stage, machine_of, member_of

log = Logger()

_PASSING = (words.UNREACHABLE, words.RESTARTING, words.FULL)


class Surroundings(Protocol):
    """What a membership needs of the launcher around it."""

    clock: Any
    keys: KeyStore
    games: Path
    downloading: set[str]  # the folders that games are downloaded into now, by ``one_name``
    runner: Runner | None  # what was found for Windows games

    def client(self, record: HostRecord, content_port: int = 0) -> HostClient:
        """Asks the host; with a port, the content server of a private one."""

    def in_thread(self, work: Callable[..., Any], *given: Any) -> Deferred[Any]:
        """Run blocking work in a thread."""

    def keep(self, record: HostRecord) -> None:
        """Write down what has changed of a host."""

    def open_way(self, record: HostRecord) -> tuple[str, str]:
        """Make the host reachable for the game: its server and chat. Raises CannotPlay."""

    def close_way(self, record: HostRecord) -> Any:
        """Stop the relay that ``open_way`` started for this host; another host's goes on."""


def invite_name(host: str) -> str:
    """Under which an invite's code is kept until it is used."""
    return f"{host}/invite"


@define(eq=False, slots=False)
class Membership:
    """Everything about one host; the machine's errands are methods of it."""

    around: Surroundings
    record: HostRecord
    before: HostRecord | None = None  # as it stays until the player trusts a new certificate
    host: Host = field(init=False)
    inputs: Inputs = field(init=False)
    news: HostNews = field(factory=HostNews, init=False)
    game: Game = field(init=False)
    files: FilesJob = field(init=False)
    client: HostClient = field(init=False)
    saying: str = field(default="", init=False)  # about a field the player is filling in
    tried: str = field(default="", init=False)  # what ``saying`` is about
    _asking: Deferred[Any] | None = field(default=None, init=False)
    _fetching: Deferred[Any] | None = field(default=None, init=False)
    _jobs: set[Deferred[Any]] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.host = Host(self)
        has_key = bool(self.record.username) and self.key is not None
        self.inputs = member_of(self.host) if has_key else machine_of(self.host)
        self.game = Game(self.around.clock, self._game_ended)
        self.client = self.around.client(self.record)
        self.files = self._files()

    def _files(self) -> FilesJob:
        record = self.record
        content = self.client
        if not record.public and record.content_port:
            content = self.around.client(record, record.content_port)
        job = FilesJob(self.around.clock, content, self.around.in_thread, GameFolder(self.folder))
        job.rate.limit = record.speed_limit
        return job

    @property
    def key(self) -> Secret | None:
        """The player's key, from the key store."""
        return self.around.keys.get(self.record.id)

    @property
    def folder(self) -> Path:
        """Where this host's game files are: as chosen, else the usual place."""
        return Path(self.record.folder) if self.record.folder else self.usual_folder

    @property
    def usual_folder(self) -> Path:
        """Where it is unless the player wants it elsewhere."""
        return self.around.games / self.record.id

    def change(self, **changes: Any) -> None:
        """Change the record of this host, and keep it."""
        before, self.record = self.record, evolve(self.record, **changes)
        if self.before is None:
            self.around.keep(self.record)
        self.files.rate.limit = self.record.speed_limit
        if (before.folder, before.content_port) != (self.record.folder, self.record.content_port):
            self.files.stop()
            self.files = self._files()

    # -- the machine's errands -------------------------------------------------

    def register(self, name: str) -> None:
        self._ask_no_more()
        self._begin(self._register(name))

    @property
    def _code(self) -> str:
        """The invite's, until it is used."""
        code = self.around.keys.get(invite_name(self.record.id))
        return code.reveal() if code is not None else ""

    async def _register(self, name: str) -> None:
        try:
            account = await accounts.register(self.client, name, self._code)
        except accounts.Refused as why:
            self.inputs.refused(str(why))
            return
        self.around.keys.put(self.record.id, account.key)
        self.around.keys.drop(invite_name(self.record.id))
        self.change(username=account.username)
        self.inputs.known()
        await self._settle()

    def recognise(self) -> None:
        self._begin(self._recognise())

    async def _recognise(self) -> None:
        key = self.key
        try:
            account = await accounts.recognise(self.client, key or Secret(""))
        except accounts.Refused as why:
            self.inputs.refused(str(why))
            return
        self.change(username=account.username)
        self.inputs.known()
        await self._settle()

    async def _settle(self) -> None:
        """Look around as a new member, then at the files."""
        await self._refresh()
        self.inputs.check(False)

    def check(self, thorough: bool) -> None:
        self._begin(self._check(thorough))

    async def _check(self, thorough: bool) -> None:
        if self.news.reachable is None:
            await self._refresh()
        if self.news.reachable and not self.record.public and not self.news.content_port:
            self.inputs.whole(False)
            return
        files = self.files
        try:
            listing, found = await files.check(thorough=thorough)
        except Stopped:
            return
        except NoListing:
            self.inputs.whole(False)
            return
        except CannotFetch as why:
            self.inputs.failed(str(why))
            return
        self._keep_program(files)
        if found.whole:
            self.inputs.whole(True)
        else:
            self.inputs.lacking(found.bytes_missing, damage(found, listing))

    def fetch(self) -> None:
        self._fetching = self._begin(self._fetch(self._fetching))

    async def _fetch(self, before: Deferred[Any] | None) -> None:
        """Download, unless another host does so in the same folder: each would take the other's
        partial files for those of an older version.
        """
        if before is not None:
            await before  # one that was stopped may still be ending
        downloading = self.around.downloading
        place = await self.around.in_thread(one_name, self.folder)
        if self.host.stage is not Stage.FETCHING:
            return
        if place in downloading:
            self.inputs.failed(words.FOLDER_BUSY.format(folder=self.folder))
            return
        downloading.add(place)
        try:
            await self._fetch_files(self.files)
        finally:
            downloading.discard(place)

    async def _fetch_files(self, files: FilesJob) -> None:
        try:
            await files.fetch(self.key or Secret(""))
        except Stopped:
            return
        except KeyRefused:
            self.inputs.failed(await self._why_refused())
            return
        except CannotFetch as why:
            self.inputs.failed(str(why))
            return
        self._keep_program(files)
        self.inputs.whole(True)

    def _keep_program(self, files: FilesJob) -> None:
        """Remember what starts the game: it is played, too, while the files are not handed out."""
        if files.program != self.record.program:
            self.change(program=files.program)

    async def _why_refused(self) -> str:
        """Whether the key is unknown, or the account shut out."""
        try:
            await accounts.recognise(self.client, self.key or Secret(""))
        except accounts.Refused as why:
            return str(why)
        return words.KEY_REFUSED

    def stop_files(self) -> None:
        self.files.stop()

    def start_game(self) -> None:
        self._begin(starting.start_game(self))

    def _game_ended(self, status: int) -> None:
        self.around.close_way(self.record)
        why = words.GAME_FAILED.format(code=status) if status else ""
        self.inputs.ended(why)
        if not status:
            self.host.note = words.GAME_ENDED

    def stop_game(self) -> None:
        self.game.stop()
        self.around.close_way(self.record)

    # -- the player's other wishes ---------------------------------------------

    def agree(self) -> None:
        """The player trusts the host; one who has a key for it already goes on with it."""
        before, self.before = self.before, None
        self.inputs.agree()
        if before is not None:
            self.change(username=before.username)
            self.inputs.bring()

    def choose(self, name: str) -> None:
        """Register as ``name``, if that can be a name."""
        if accounts.NAME.match(name):
            self.inputs.choose(name)
        else:
            self.host.trouble = words.NAME_INVALID

    def try_name(self, name: str) -> None:
        """Say whether ``name`` keeps the rules and is free, in place of what was asked before."""
        self._ask_no_more()
        if self.host.stage is not Stage.NAMING:
            return
        self.tried, self.host.trouble = name, ""  # which was about another name
        if accounts.NAME.match(name):
            self._asking = self._begin(self._ask_for(name))
        else:
            self.saying = words.NAME_INVALID

    async def _ask_for(self, name: str) -> None:
        public = self.record.public
        self.saying = await accounts.ask_for(self.client, name, self._code, public=public)

    def _ask_no_more(self) -> None:
        asking, self._asking = self._asking, None
        self.tried = self.saying = ""
        if asking is not None:
            asking.cancel()

    def bring(self, key: Secret) -> None:
        """Use the account key ``key`` from now on, and keep it in the key store."""
        self.around.keys.put(self.record.id, key)
        self.inputs.bring()

    def refresh(self) -> Deferred[Any]:
        """Ask the host anew for its status, news and files."""
        return self._begin(self._refresh())

    async def _refresh(self) -> None:
        key = self.key if self.record.username else None
        await self.news.ask(self.client, key)
        over = self.news.reachable and self.host.trouble in _PASSING
        if over:
            self.host.trouble = ""
        if self.news.reachable and not self.record.public:
            self.change(content_port=self.news.content_port)
        if self.news.reachable and (self.record.public or self.news.content_port):
            await self.news.ask_content(self.files.client, self.around.clock.seconds())
        if self.news.known and key is not None:
            await self.news.ask_hunter(self.client, key, self.around.clock.seconds())
        if self.news.reachable and self.news.known is False:
            # the host may have taken a new key whose answer was lost
            renewed = key_and_passport.is_renewing(self) and await key_and_passport.renew_key(self)
            if not renewed:
                self.inputs.expelled(await self._why_refused())
        if over and self.host.stage is Stage.UNCHECKED and not self.host.trouble:
            self.inputs.check(False)  # which the host could not be asked about before

    def save_passport(self, folder: Path) -> None:
        """Have the host sign what the player has there, and keep it in ``folder``."""
        self._begin(
            key_and_passport.save_passport(self, folder / f"svc-passport-{self.record.id}.json")
        )

    def renew_key(self) -> None:
        """Have the host take a new key in place of the one we have."""
        self._begin(self._renew_key())

    async def _renew_key(self) -> None:
        await key_and_passport.renew_key(self)

    def leave(self) -> None:
        """Stop the downloads and all errands, and close the connections to the host."""
        self.files.stop()
        for job in tuple(self._jobs):
            job.cancel()
        self.client.pool.close()
        if self.files.client is not self.client:
            self.files.client.pool.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> Deferred[Any]:
        job: Deferred[Any] = Deferred.fromCoroutine(work)
        self._jobs.add(job)
        job.addErrback(self._broken)
        job.addBoth(lambda _: self._jobs.discard(job))
        return job

    def _broken(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure("what was asked for {host} failed", failure, host=self.record.name)
            self.inputs.failed(words.DEFECT)

    # -- what is shown ---------------------------------------------------------

    def standing(self) -> str:
        """A sentence when the host is not as it should be."""
        return self.news.why if self.news.reachable is False else ""
