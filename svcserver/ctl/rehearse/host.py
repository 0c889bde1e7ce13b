"""A host in a temporary folder, with its processes and one player."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import IO, Any

import click
from attrs import define, field, frozen

from svcserver.ctl.blueprint import PRIVATE, Ports
from svcserver.ctl.doctor.case import Level
from svcserver.ctl.doctor.command import examine
from svcserver.ctl.host import Host, find
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.main import main
from svcserver.ctl.output import Failed, fail
from svcserver.ctl.stack_process import ENDED, LOG, READY, START_S, STOP_S
from svcserver.ctl.status_command import headline, look
from svcserver.edge.certificate import CERT_FILE, fingerprint, fingerprint_of_der
from svcserver.kernel import json
from svcserver.stack.components import environment

ANSWER_S = 20.0
LOOK_S = 0.2
FIGURES = tuple(f"{name}_figures" for name in (*PRIVATE, "gateway", "allowlist"))
TCP = ("metagame", "deploy", "content", "allowlist", "chat", "gateway", "relay", *FIGURES)
GAMES = 8  # UDP ports for game servers
MAX_LOG = 6  # lines shown of a step
_CHILD = re.compile(r"\[([\w-]+)\] (.*)")  # what svc-stack passes on of a component
_GRAVE = re.compile(r"\S+ (warn|error|critical) (\S+): (.*)")  # svc-stack's own have no name
_KNOCK = "autobahn."  # logs a warning when the doctor looks who listens on the chat's port


@frozen
class Seen:
    """What the owner and a player see of a host."""

    log: list[str]
    doctor: list[str]
    status: str
    player: str
    saved: bool  # whether the player's save was acknowledged

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong, to anybody."""
        return self.saved and not self.doctor


class Wrong(Exception):
    """A player was not served; ``str()`` is what the player notices."""


@define
class Player:
    """One player, who came by an invite that names the certificate."""

    port: int
    pinned: str
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    character: str = ""
    version: int = 0

    def ask(self, path: str, sent: Any = None, *, form: str = "") -> Any:
        """A request through the gateway; raises Wrong."""
        # the default context would read all of the system's authorities, which sign nothing here
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # pinned, as a relay's
        line = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=ANSWER_S, context=context
        )
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        body: bytes | None = None
        if form:
            body, headers["Content-Type"] = form.encode(), "application/x-www-form-urlencoded"
        elif sent is not None:
            body, headers["Content-Type"] = json.dump(sent), "application/json"
        try:
            line.connect()
            shown = fingerprint_of_der(line.sock.getpeercert(True) or b"")
            if shown != self.pinned:
                raise Wrong("the gateway shows another certificate than the invite names")
            line.request("GET" if body is None else "POST", path, body, headers)
            heard = line.getresponse()
            said, status = heard.read(), heard.status
        except (OSError, http.client.HTTPException) as why:
            raise Wrong(f"the host cannot be reached ({type(why).__name__})") from None
        finally:
            line.close()
        if status != 200:
            raise Wrong(f"{path} was answered with {status}")
        return json.parse(said)

    def come(self, name: str) -> None:
        """Register, log in and read the character."""
        self.key = str(self.ask("/svc/api/Register", {"Username": name})["UUK"])
        self.log_in()

    def log_in(self) -> None:
        """As the game does at its start."""
        self.token = ""
        form = f"grant_type=exchange_code&exchange_code={self.key}&token_type=eg1"
        self.token = str(self.ask("/account/api/oauth/token", form=form)["access_token"])
        [found] = self.ask("/character")
        self.character, self.version = str(found["id"]), int(found["updateVersion"])

    def save(self) -> None:
        """Save the character under its next version; raises Wrong."""
        if not self.token:
            self.log_in()
        wish = {"characterId": self.character, "data": '{"Rehearsed":"yes"}'}
        self.ask("/character", {**wish, "updateVersion": self.version + 1})
        self.version += 1


@define(eq=False)
class ThrowAway:
    """Makes the host when entered, and ends its processes when left."""

    folder: Path
    ports: Ports = field(factory=Ports)
    player: Player = field(init=False)
    _process: subprocess.Popen[bytes] | None = None
    _out: IO[bytes] | None = None
    _read: int = 0  # bytes of the log that were shown
    _pause: Event = field(factory=Event)
    _held: ExitStack = field(factory=ExitStack)  # its ports, against everybody but its services

    def __enter__(self) -> ThrowAway:
        with ExitStack() as held:
            self.ports = free_ports(held)
            self.make()
            self.player = Player(self.ports.gateway, self.shown_fingerprint())
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        why: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            self.stop()

    def make(self) -> None:
        """Write its files."""
        create_host(self.folder, "127.0.0.1", "owner", ports=self.ports, demo=True)

    @property
    def host(self) -> Host:
        """The folder as the commands of ``svcctl`` take it."""
        return find(str(self.folder), None)

    def shown_fingerprint(self) -> str:
        """The fingerprint of the certificate in the folder."""
        return fingerprint((self.folder / CERT_FILE).read_bytes())

    # -- processes -------------------------------------------------------------------

    def start(self, *, broken: bool = False) -> None:
        """Start all services and wait until they are ready, or one says that it is not.

        Fails when they do not become ready, unless they are ``broken``.
        """
        handle = os.open(self.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._out = os.fdopen(handle, "wb")
        began = self._size()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "svcserver.stack.child", "svc-stack", "--config", self.folder],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env=environment(os.environ),
        )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            text = self._text(began)
            if READY.search(text):
                return
            if ENDED in text or self._process.poll() is not None:
                if broken:
                    return
                break
            self._pause.wait(LOOK_S)
        fail(
            f"the throw-away host did not start: {' | '.join(self._text(began).splitlines()[-3:])}"
        )

    def stop(self) -> None:
        """End all services; kill them if they take longer than ``STOP_S``."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._out is not None:
            self._out.close()
            self._out = None
        self._read = self._size()

    def svcctl(self, *words: str) -> tuple[str, str]:
        """What the owner types, and what comes of it; never fails."""
        line = [*words, "--config", str(self.folder)]
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):
            try:
                main.main(args=line, standalone_mode=False)
            except click.ClickException as why:
                heard.write(f"svcctl: {why.format_message()}\n")
        return f"svcctl {shlex.join(line)}", heard.getvalue()

    # -- what is seen ----------------------------------------------------------------

    def seen(self) -> Seen:
        """Everything, now: a player saves first, so that the log has something to say."""
        player, saved = "saves, and is served", True
        try:
            self.player.save()
        except Wrong as why:
            player, saved = str(why), False
        try:
            status = headline(look(self.host)[0])
        except Failed as why:
            status = why.message
        found = examine(self.host, self.folder)
        doctor = [str(one) for one in found if one.level is Level.WRONG]
        return Seen(self._new_lines(), doctor, status, player, saved)

    def eventually(self, *, saved: bool) -> Seen:
        """What is seen once saving works, or works no more; at last whatever is seen then."""
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            try:
                self.player.save()
                works = True
            except Wrong:
                works = False
            if works == saved:
                break
            self._pause.wait(LOOK_S)
        return self.seen()

    def _new_lines(self) -> list[str]:
        text = self._text(self._read)
        self._read = self._size()
        lines = [serious(one) for one in text.splitlines()]
        return list(dict.fromkeys(filter(None, lines)))[:MAX_LOG]

    def _text(self, since: int) -> str:
        with (self.folder / LOG).open("rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def _size(self) -> int:
        try:
            return (self.folder / LOG).stat().st_size
        except OSError:
            return 0


def serious(line: str) -> str:
    """A line of svc-stack's log in short, where it is a warning or worse; else nothing."""
    child = _CHILD.match(line)
    if child is None:
        own = _GRAVE.match(line)
        return f"{own[2]}: {own[3]}" if own is not None else ""
    if child[2].startswith("svc-"):
        return line  # a refused start is plain text
    said = _GRAVE.match(child[2])
    if said is None or said[2].startswith(_KNOCK):
        return ""
    return f"[{child[1]}] {said[1]}: {said[3]}"


def free_ports(held: ExitStack) -> Ports:
    """Ports that nothing holds at this moment; those of TCP stay ours as long as ``held``.

    Else an outgoing connection of any program could be given one of them before its service has
    started, or while that starts again. Who listens may bind them all the same, since we do not.
    """
    tcp = [_free(held, socket.SOCK_STREAM) for _ in TCP]
    with ExitStack() as row:
        for _ in range(100):
            first = _free(row, socket.SOCK_DGRAM)
            if first + GAMES > 65_535:
                continue
            with contextlib.suppress(OSError):
                for port in range(first + 1, first + GAMES):
                    _free(row, socket.SOCK_DGRAM, port)
                named = dict(zip(TCP, tcp, strict=True))
                return Ports(**named, hunts=first, city=first + GAMES - 1)
    fail(f"no {GAMES} UDP ports in a row are free")


def _free(held: ExitStack, kind: int, port: int = 0) -> int:
    one = held.enter_context(socket.socket(socket.AF_INET, kind))
    if kind == socket.SOCK_STREAM:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return int(one.getsockname()[1])
