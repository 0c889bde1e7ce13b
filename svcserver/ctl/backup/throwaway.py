"""A temporary host, in a folder that is removed at the end."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import IO

import click
from attrs import define, field

from svcserver.ctl.blueprint import PRIVATE, Ports
from svcserver.ctl.host import Host, find
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.main import main
from svcserver.ctl.output import fail
from svcserver.ctl.stack_process import ENDED, LOG, READY, START_S, STOP_S
from svcserver.stack.components import environment

LOOK_S = 0.2
FIGURES = tuple(f"{name}_figures" for name in (*PRIVATE, "gateway", "allowlist"))
TCP = ("metagame", "deploy", "content", "allowlist", "chat", "gateway", "relay", *FIGURES)
GAMES = 8  # UDP ports for game servers


@define(eq=False)
class ThrowAway:
    """A context manager that creates a temporary host and ends its processes afterwards."""

    folder: Path
    ports: Ports = field(factory=Ports)
    _process: subprocess.Popen[bytes] | None = None
    _out: IO[bytes] | None = None
    _pause: Event = field(factory=Event)
    _held: ExitStack = field(factory=ExitStack)  # keeps the host's ports reserved

    def __enter__(self) -> ThrowAway:
        with ExitStack() as held:
            self.ports = free_ports(held)
            self.make()
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
        create_host(self.folder, "127.0.0.1", "owner", ports=self.ports, demo=True)

    @property
    def host(self) -> Host:
        """Return the ``Host`` in the temporary folder, for the commands of ``svcctl``."""
        return find(str(self.folder), None)

    # -- processes -------------------------------------------------------------------

    def start(self) -> None:
        """Start all services and wait until they are ready; raises Failed if they are not."""
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
                break
            self._pause.wait(LOOK_S)
        fail(f"the temporary host did not start: {' | '.join(self._text(began).splitlines()[-3:])}")

    def stop(self) -> None:
        """Stop all services; kill them if they take longer than ``STOP_S``."""
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

    def svcctl(self, *words: str) -> tuple[str, str]:
        """Run an ``svcctl`` command; return the command line and the output.

        If the command fails, its error message is part of the output.
        """
        line = [*words, "--config", str(self.folder)]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            try:
                main.main(args=line, standalone_mode=False)
            except click.ClickException as why:
                output.write(f"svcctl: {why.format_message()}\n")
        return f"svcctl {shlex.join(line)}", output.getvalue()

    def _text(self, since: int) -> str:
        with (self.folder / LOG).open("rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def _size(self) -> int:
        try:
            return (self.folder / LOG).stat().st_size
        except OSError:
            return 0


def free_ports(held: ExitStack) -> Ports:
    """Return ports that are free now; the TCP ports stay reserved while ``held`` is open.

    The host's services can listen on reserved ports, but no other program's outgoing connection can
    take them.
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
    fail(f"svcctl could not find {GAMES} free UDP ports with consecutive numbers. Try again.")


def _free(held: ExitStack, kind: int, port: int = 0) -> int:
    listener = held.enter_context(socket.socket(socket.AF_INET, kind))
    if kind == socket.SOCK_STREAM:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return int(listener.getsockname()[1])
