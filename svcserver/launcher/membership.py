"""The player's membership of one host."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from attrs import define, evolve, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.invite import is_code
from svcserver.kernel.secrets import Secret
from svcserver.launcher import accounts, words
from svcserver.launcher.command import DOCUMENTED, USUAL_PROGRAM, BadCommand, StartValues
from svcserver.launcher.downloads import DownloadFailed, KeyRefused
from svcserver.launcher.game_files import GameFiles, NoListing, damage
from svcserver.launcher.game_folder import GameFolder, Stopped, one_name
from svcserver.launcher.host_client import HostClient, NoReply
from svcserver.launcher.host_list import HostRecord
from svcserver.launcher.host_status import HostNews
from svcserver.launcher.keystore import KeyStore
from svcserver.launcher.playing import Game, NoProgram
from svcserver.launcher.port_in_use import program_on
from svcserver.launcher.private_files import write_private
from svcserver.launcher.runners import Runner, chosen
from svcserver.launcher.stages import HostProgress, Inputs, Stage, machine_of, member_of
from svcserver.relay.relaying import HOST, PortBusy

log = Logger()

_PASSING = (words.UNREACHABLE, words.RESTARTING, words.FULL, words.WRONG_CERTIFICATE)
WRONG_CERTIFICATE_S = 30.0  # between two polls of a host with a wrong certificate
EARLY_S = 1.0  # a poll is not skipped if the timer is early by less than this


LONGEST_PASSPORT = 64 * 1024 * 1024  # bytes
PASSPORT_S = 300.0  # how long the host may take to make a passport
CHAT_PORT = 61099  # the chat port of a private host, which has no gateway
STATUS, STATUS_S = "/svc/api/ServerStatus", 5.0


class CannotPlay(Exception):
    """The error when the game cannot be started now; its text is for the player."""


class LauncherServices(Protocol):
    """The launcher's services that a membership uses."""

    clock: Any
    keys: KeyStore
    games: Path
    downloading: set[str]  # the folders that games are downloaded into now, by ``one_name``
    runner: Runner | None  # the installed runner for Windows games

    def client(self, record: HostRecord, content_port: int = 0) -> HostClient:
        """Return a client for the host, or for its content server if ``content_port`` is set."""

    def in_thread(self, work: Callable[..., Any], *args: Any) -> Deferred[Any]:
        """Run a blocking function in a thread and return its result."""

    def keep(self, record: HostRecord) -> None:
        """Save the changed record of a host."""

    def open_way(self, record: HostRecord) -> tuple[str, str]:
        """Make the host reachable for the game, or raise CannotPlay or PortBusy.

        Returns the addresses of the server and the chat.
        """

    def close_way(self, record: HostRecord) -> Any:
        """Stop the relay if ``open_way`` started it for this host."""


def invite_name(host: str) -> str:
    """Return the name under which the key store keeps an invite's code until the code is used."""
    return f"{host}/invite"


def new_key_name(host: str) -> str:
    """Return the name under which the key store keeps a new key until the host accepts it."""
    return f"{host}/new"


def way_to(record: HostRecord, relay_port: int, relay_host: str = HOST) -> tuple[str, str]:
    """Return the addresses for the game: server (``host:port``) and chat (``ws://host:port``).

    The game reaches a public host through the relay on this PC, and a private host directly.
    """
    if record.public:
        return f"{relay_host}:{relay_port}", f"ws://{relay_host}:{relay_port}"
    return f"{record.host}:{record.port}", f"ws://{record.host}:{CHAT_PORT}"


def is_same_process(here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Return whether two status replies come from the same metagame process."""
    alike = all(here.get(name) == there.get(name) for name in ("name", "version", "commit"))
    first, second = (reply.get("uptimeSeconds") for reply in (here, there))
    if not isinstance(first, int) or not isinstance(second, int):
        return False
    return alike and abs(first - second) <= STATUS_S


def _is_metagame(program: str) -> bool:
    return program.startswith("svc-metagame ")


@define(eq=False, slots=False)
class Membership:
    """The player's membership of one host; implements the ``Actions`` of the state machine."""

    around: LauncherServices
    record: HostRecord
    before: HostRecord | None = None  # the old record, while a new certificate is not yet trusted
    host: HostProgress = field(init=False)
    inputs: Inputs = field(init=False)
    news: HostNews = field(factory=HostNews, init=False)
    game: Game = field(init=False)
    files: GameFiles = field(init=False)
    client: HostClient = field(init=False)
    saying: str = field(default="", init=False)  # a text about the name that the player is typing
    tried: str = field(default="", init=False)  # the name that ``saying`` is about
    invite_fault: str | None = field(default=None, init=False)  # None: the code is not checked yet
    way: tuple[str, str] | None = field(
        default=None, init=False
    )  # the addresses of the running game
    _refreshed_at: float = field(default=0.0, init=False)
    _asking: Deferred[Any] | None = field(default=None, init=False)
    _fetching: Deferred[Any] | None = field(default=None, init=False)
    _jobs: set[Deferred[Any]] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.host = HostProgress(self)
        has_key = bool(self.record.username) and self.key is not None
        self.inputs = member_of(self.host) if has_key else machine_of(self.host)
        self.game = Game(self.around.clock, self._game_ended)
        self.client = self.around.client(self.record)
        self.files = self._files()

    def _files(self) -> GameFiles:
        record = self.record
        content = self.client
        if not record.public and record.content_port:
            content = self.around.client(record, record.content_port)
        job = GameFiles(self.around.clock, content, self.around.in_thread, GameFolder(self.folder))
        job.rate.limit = record.speed_limit
        return job

    @property
    def key(self) -> Secret | None:
        """The player's account key for this host, from the key store."""
        return self.around.keys.get(self.record.id)

    @property
    def folder(self) -> Path:
        """The folder of this host's game files: the player's choice or the default."""
        return Path(self.record.folder) if self.record.folder else self.usual_folder

    @property
    def usual_folder(self) -> Path:
        """The default folder for this host's game files."""
        return self.around.games / self.record.id

    def change(self, **changes: Any) -> None:
        """Change this host's record and save it."""
        before, self.record = self.record, evolve(self.record, **changes)
        if self.before is None:
            self.around.keep(self.record)
        self.files.rate.limit = self.record.speed_limit
        if (before.folder, before.content_port) != (self.record.folder, self.record.content_port):
            self.files.stop()
            self.files = self._files()

    # -- actions of the state machine -------------------------------------------------

    def register(self, name: str) -> None:
        self._cancel_name_check()
        self._begin(self._register(name))

    @property
    def _code(self) -> str:
        """The invite's code, which the key store keeps until the code is used."""
        code = self.around.keys.get(invite_name(self.record.id))
        return code.reveal() if code is not None else ""

    async def _register(self, name: str) -> None:
        try:
            account = await accounts.register(self.client, name, self._code)
        except accounts.Refused as error:
            why = str(error)
            if why == words.INVITE_INVALID:
                await self._check_invite()
                self.invite_fault = why = self.invite_fault or why
            self.inputs.refused(why)
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
        except accounts.Refused as error:
            self.inputs.refused(str(error))
            return
        self.change(username=account.username)
        self.inputs.known()
        await self._settle()

    async def _settle(self) -> None:
        """Load the host's status for the new member, then check the game's files."""
        await self._refresh()
        self.inputs.check(False)

    def check(self, thorough: bool) -> None:
        self._begin(self._check(thorough))

    async def _check(self, thorough: bool) -> None:
        if self.news.reachable is None:
            await self._refresh()
        if self.news.reachable and not self.record.public and not self.news.content_port:
            await self._check_own_game()
            return
        files = self.files
        try:
            listing, comparison = await files.check(thorough=thorough)
        except Stopped:
            return
        except NoListing:
            await self._check_own_game()
            return
        except DownloadFailed as error:
            self.inputs.failed(str(error))
            return
        self._keep_program(files)
        if comparison.whole:
            self.inputs.whole(True)
        else:
            self.inputs.lacking(comparison.bytes_missing, damage(comparison, listing))

    async def _check_own_game(self) -> None:
        """If the host offers no files, let the player start a game that is already on this PC."""
        if self.command == DOCUMENTED:
            program = self.folder / (self.record.program or USUAL_PROGRAM)
            if not await self.around.in_thread(program.is_file):
                self.inputs.failed(words.NO_FILES)
                return
        self.inputs.whole(False)

    def fetch(self) -> None:
        self._fetching = self._begin(self._fetch(self._fetching))

    async def _fetch(self, before: Deferred[Any] | None) -> None:
        """Download the missing files; report a failure if another download uses the folder.

        Two downloads into one folder would delete each other's partial files.
        """
        if before is not None:
            await before  # a stopped download may still be ending
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

    async def _fetch_files(self, files: GameFiles) -> None:
        try:
            await files.fetch(self.key or Secret(""))
        except Stopped:
            return
        except KeyRefused:
            self.inputs.failed(await self._why_refused())
            return
        except DownloadFailed as error:
            self.inputs.failed(str(error))
            return
        self._keep_program(files)
        self.inputs.whole(True)

    def _keep_program(self, files: GameFiles) -> None:
        """Save the path of the program that starts the game."""
        if files.program != self.record.program:
            self.change(program=files.program)

    async def _why_refused(self) -> str:
        """Return a text that says whether the key is unknown or the account is banned."""
        try:
            await accounts.recognise(self.client, self.key or Secret(""))
        except accounts.Refused as error:
            return str(error)
        return words.KEY_REFUSED

    def stop_files(self) -> None:
        self.files.stop()

    def start_game(self) -> None:
        self._begin(self._start_game())

    async def _start_game(self) -> None:
        """Check that the host accepts the player's key, then start the game."""
        try:
            await self._try_start()
        except (accounts.Refused, CannotPlay) as error:
            self.inputs.failed(str(error))
        except PortBusy as error:
            program = await self._program_on(error)
            text = words.METAGAME_BUSY if _is_metagame(program) else words.RELAY_BUSY
            self.inputs.failed(text.format(port=error.port, program=program))
        except BadCommand as error:
            self.inputs.failed(words.BAD_COMMAND.format(why=error))
        except OSError as error:
            reason = error.strerror or error
            self.inputs.failed(words.NOT_WRITABLE.format(folder=self.folder, why=reason))
        except NoProgram as error:
            self.inputs.failed(words.NO_PROGRAM.format(program=error))

    async def _try_start(self) -> None:
        key = self.key
        if key is None:
            raise accounts.Refused(words.KEY_REFUSED)
        await accounts.recognise(self.client, key)
        if not await self.files.is_newest():
            raise CannotPlay(words.VERSION)
        runner, environ = self.runner, dict(os.environ)
        if runner is not None:
            await self.around.in_thread(runner.prepare, self.folder)
            environ |= runner.environ(self.folder)
        if self.host.stage is not Stage.STARTING:
            return
        try:
            self.way = self.around.open_way(self.record)
        except PortBusy as error:
            if not await self._is_own_metagame(error):
                raise
            if self.host.stage is not Stage.STARTING:
                return
            server, _ = self.around.open_way(self._at_metagame(error.port))
            self.way = server, f"ws://{server}"
        values = self.start_values(*self.way)
        try:
            front = runner.command if runner is not None else ""
            self.game.start(
                values.arguments(self.command, front, key.reveal()), str(self.folder), environ
            )
        except BaseException:
            self._close_way()
            raise
        self.inputs.started()

    async def _program_on(self, busy: PortBusy) -> str:
        program: str = await self.around.in_thread(program_on, busy.host, busy.port)
        return program

    async def _is_own_metagame(self, busy: PortBusy) -> bool:
        """Return whether the program on the busy port is this host's own metagame.

        If so, the host runs on this PC, and the game needs no relay. But the metagame on this PC
        may belong to another host, which must not get the player's key. So the status on this PC is
        compared with the status at the host's address.
        """
        if not _is_metagame(await self._program_on(busy)):
            return False
        local = self.around.client(self._at_metagame(busy.port))
        try:
            here = (await local.fetch_reply("GET", STATUS, patience_s=STATUS_S)).fields
            there = (await self.client.fetch_reply("GET", STATUS, patience_s=STATUS_S)).fields
        except NoReply:
            return False
        finally:
            local.pool.close()
        return is_same_process(here, there)

    def _at_metagame(self, port: int) -> HostRecord:
        """Return this host's record, changed so that requests go to the metagame on this PC."""
        return evolve(self.record, host=HOST, port=port, fingerprint="", next_fingerprint="")

    def _close_way(self) -> None:
        self.way = None
        self.around.close_way(self.record)

    @property
    def command(self) -> str:
        """The command that starts the game, with its placeholders."""
        return self.record.command or DOCUMENTED

    @property
    def runner(self) -> Runner | None:
        """The program, such as ``wine``, that runs the game's program."""
        program = self.record.program or USUAL_PROGRAM
        return chosen(self.record.runner, self.command, program, self.around.runner)

    def start_values(self, server: str, chat: str) -> StartValues:
        """Return the values for the placeholders in the command that starts the game."""
        program = self.record.program or USUAL_PROGRAM
        return StartValues(str(self.folder), server, chat, program)

    def _game_ended(self, status: int) -> None:
        self._close_way()
        self.inputs.ended(words.GAME_FAILED.format(code=status) if status else "")
        if not status:
            self.host.note = words.GAME_ENDED

    def stop_game(self) -> None:
        self.game.stop()
        self._close_way()

    # -- the player's other requests ---------------------------------------------

    def agree(self) -> None:
        """Trust the host; if the player already has a key for this host, use that key."""
        before, self.before = self.before, None
        self.inputs.agree()
        if before is not None:
            self.change(username=before.username)
            self.inputs.bring()

    def choose(self, name: str) -> None:
        """Register as ``name``; if the name is invalid, show an error."""
        if not accounts.NAME.match(name):
            self.host.trouble = words.NAME_INVALID
        elif self.invite_fault:
            self._begin(self._choose_if_invited(name))
        else:
            self.inputs.choose(name)

    async def _choose_if_invited(self, name: str) -> None:
        """Ask the host about the invite again; if it now accepts the invite, register."""
        await self._check_invite()
        if not self.invite_fault:
            self.inputs.choose(name)

    @property
    def is_joining(self) -> bool:
        """True while the player has no account on the host yet."""
        return self.host.stage in (Stage.INVITED, Stage.NAMING) and self.before is None

    @property
    def needs_code(self) -> bool:
        """True if the host refused the invite's code, so the player must enter another."""
        faults = (
            words.INVITE_USED_UP,
            words.INVITE_EXPIRED,
            words.INVITE_UNKNOWN,
            words.INVITE_INVALID,
        )
        return self.is_joining and self.invite_fault in faults

    async def _check_invite(self) -> None:
        """Ask the host whether the invite's code is valid."""
        code = self._code
        fault = await accounts.invite_state(self.client, code)
        if fault is not None and code == self._code:
            self.invite_fault = fault

    def correct_code(self, code: str) -> str:
        """Replace the invite's code, and have the host check it; return an error text, or ""."""
        if not self.is_joining:
            return ""
        if not is_code(code):
            return words.CODE_INVALID
        self.around.keys.put(invite_name(self.record.id), Secret(code))
        self.invite_fault, self.host.trouble = None, ""
        self._begin(self._check_invite())
        return ""

    def try_name(self, name: str) -> None:
        """Cancel an earlier check, then check whether ``name`` is valid and free."""
        self._cancel_name_check()
        if self.host.stage is not Stage.NAMING:
            return
        self.tried, self.host.trouble = name, ""  # the trouble was about another name
        if accounts.NAME.match(name):
            self._asking = self._begin(self._ask_for(name))
        else:
            self.saying = words.NAME_INVALID

    async def _ask_for(self, name: str) -> None:
        public = self.record.public
        self.saying = await accounts.ask_for(self.client, name, self._code, public=public)

    def _cancel_name_check(self) -> None:
        asking, self._asking = self._asking, None
        self.tried = self.saying = ""
        if asking is not None:
            asking.cancel()

    def bring(self, key: Secret) -> None:
        """Save an imported account key in the key store and use it."""
        self.around.keys.put(self.record.id, key)
        self.inputs.bring()

    def poll(self) -> None:
        """Poll the host's status and news.

        After the host has shown a wrong certificate, polls are about ``WRONG_CERTIFICATE_S``
        seconds apart; calls in between do nothing.
        """
        waited_s = self.around.clock.seconds() - self._refreshed_at
        if not self.news.wrong_certificate or waited_s > WRONG_CERTIFICATE_S - EARLY_S:
            self.refresh()

    def refresh(self) -> Deferred[Any]:
        """Poll the host's status and news."""
        return self._begin(self._refresh())

    async def _refresh(self) -> None:
        self._refreshed_at = self.around.clock.seconds()
        key = self.key if self.record.username else None
        await self.news.poll_host(self.client, key)
        over = self.news.reachable and self.host.trouble in _PASSING
        if over:
            self.host.trouble = ""
        if self.news.reachable and self.is_joining and self.invite_fault is None:
            await self._check_invite()
        if self.news.reachable and not self.record.public:
            self.change(content_port=self.news.content_port)
        if self.news.reachable and (self.record.public or self.news.content_port):
            await self.news.ask_content(self.files.client, self.around.clock.seconds())
        if self.news.reachable and self.news.known and key is not None:
            await self.news.ask_hunter(self.client, key, self.around.clock.seconds())
        if self.news.reachable and self.news.known is False:
            # the host may have taken a new key although its reply was lost
            is_renewing = self.around.keys.get(new_key_name(self.record.id)) is not None
            if not (is_renewing and await self._renew_key()):
                self.inputs.expelled(await self._why_refused())
        if over and self.host.stage is Stage.UNCHECKED and not self.host.trouble:
            self.inputs.check(False)  # the files could not be checked before

    def save_passport(self, folder: Path) -> None:
        """Download the player's data, signed by the host, to a file in ``folder``."""
        self._begin(self._save_passport(folder / f"svc-passport-{self.record.id}.json"))

    async def _save_passport(self, path: Path) -> None:
        key = self.key if self.record.username else None
        bounds: Any = {"limit": LONGEST_PASSPORT, "patience_s": PASSPORT_S}
        try:
            reply = await self.client.fetch_reply("GET", "/launcher/passport", key=key, **bounds)
            if reply.status != 200 or not reply.body.startswith(b"{"):  # parsing takes memory
                self.host.note = words.NO_PASSPORT
                return
            await self.around.in_thread(write_private, path, reply.body)
        except NoReply as error:
            self.host.note = accounts.explain_no_reply(error)
        except OSError as error:
            reason = error.strerror or error
            self.host.note = words.NOT_WRITABLE.format(folder=path.parent, why=reason)
        else:
            self.host.note = words.PASSPORT_SAVED.format(path=path)

    def renew_key(self) -> None:
        """Replace the account key with a new key."""
        self._begin(self._renew_key())

    async def _renew_key(self) -> bool:
        """Replace the key, and return whether the host has accepted the new key.

        The old and the new key stay saved until the result is known.
        """
        keys, record, old = self.around.keys, self.record, self.key
        if old is None or not record.username:
            return False
        if self.host.stage in (Stage.STARTING, Stage.PLAYING):
            self.host.note = words.RENEW_LATER
            return False
        new = keys.get(new_key_name(record.id)) or accounts.new_key()
        keys.put(new_key_name(record.id), new)
        try:
            await accounts.renew(self.client, old, new)
        except accounts.Refused as error:
            if not await accounts.is_taken(self.client, new):
                self.host.note = str(error)
                return False
        keys.put(record.id, new)
        keys.drop(new_key_name(record.id))
        self.host.note = words.KEY_RENEWED
        return True

    def leave(self) -> None:
        """Stop all work and close the connections to the host."""
        self.files.stop()
        for job in tuple(self._jobs):
            job.cancel()
        self.client.pool.close()
        if self.files.client is not self.client:
            self.files.client.pool.close()

    def _begin(self, work: Coroutine[Any, Any, object]) -> Deferred[Any]:
        job: Deferred[Any] = Deferred.fromCoroutine(work)
        self._jobs.add(job)
        job.addErrback(self._broken)
        job.addBoth(lambda _: self._jobs.discard(job))
        return job

    def _broken(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure("an action for {host} failed", failure, host=self.record.name)
            self.inputs.failed(words.DEFECT)

    # -- what is shown ---------------------------------------------------------

    def standing(self) -> str:
        """Return a text that says why the player cannot reach or join the host, or ""."""
        if self.news.reachable is False:
            return self.news.why
        return (self.invite_fault or "") if self.is_joining else ""
