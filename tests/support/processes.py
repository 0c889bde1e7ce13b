"""Real services on free ports, which tests call as clients do and stop by their pids."""

import http.client
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import orjson
from attrs import define, field

from svcserver.deploy.family import TAG, list_processes
from tests.support import prestarted
from tests.support.game import signing_keys
from tests.support.ports import share
from tests.support.prestarted import Prestarted
from tests.support.watch import Watch

PATIENCE_S = 90.0  # for a busy machine; two seconds are usual
SELDOM_S = 0.5  # between two requests to a rate-limited server
SLOWER_S = 0.2  # between two calls after a wait of four seconds or more
READY = re.compile(r"\bready\b")
_OURS = share(10_240, 20_000)
_ports = itertools.cycle(_OURS)


def free_port() -> int:
    """Return an unused TCP port below the kernel's range for outgoing connections."""
    for port in itertools.islice(_ports, len(_OURS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no TCP port is free")


def eventually(
    what: Callable[[], Any], patience_s: float = PATIENCE_S, pause_s: float = 0.02
) -> Any:
    """Return ``what()`` as soon as it is true; fail after the time limit.

    ``pause_s`` is the first pause between two calls, and later pauses are longer, up to
    ``SLOWER_S``. Use ``SELDOM_S`` for calls that are rate-limited or start a program.

    The time that the machine spends on other work is hardly counted (``Watch``).
    """
    result = what()
    if result:
        return result
    with Watch() as watch:
        while watch.seconds < patience_s:
            _pause(max(pause_s, min(SLOWER_S, watch.seconds / 20)))
            result = what()
            if result:
                return result
    raise AssertionError(f"waited {patience_s} s for {what}")


def _pause(seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nothing:
        nothing.settimeout(seconds)
        try:
            nothing.recv(1)
        except OSError:
            return


@define
class Service:
    """A ``twistd`` service as a child process; its output is kept in ``log``."""

    name: str
    folder: Path
    environ: dict[str, str]
    port: int
    arguments: list[str] = field(factory=list)
    process: Prestarted | subprocess.Popen[bytes] | None = field(default=None, init=False)
    _earlier: int = field(default=0, init=False)  # characters that earlier runs have printed

    @property
    def log(self) -> str:
        """Return everything that the service has printed."""
        return Path(self.folder, f"{self.name}.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the service and wait for its ready line."""
        self.launch()
        eventually(self._ready)

    def launch(self) -> Prestarted | subprocess.Popen[bytes]:
        """Start the service without waiting."""
        clean = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        words = ["--nodaemon", "--pidfile=", self.name, *self.arguments]
        with Path(self.folder, f"{self.name}.log").open("ab") as out:
            self._earlier = len(self.log)
            environ = {**clean, **self.environ}
            if "PYTHONPATH" in environ:  # the interpreter reads this variable when it starts
                twistd = str(Path(sys.executable).with_name("twistd"))
                self.process = subprocess.Popen(
                    [twistd, *words], cwd=self.folder, env=environ, stdout=out, stderr=out
                )
            else:
                self.process = prestarted.start(words, environ, self.folder, out.fileno())
        return self.process

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        if self.environ.get("LOG_LEVEL", "info") in ("info", "debug", "trace"):
            return READY.search(self.log, self._earlier) is not None
        try:  # the port opens before the service is ready; an answer then takes longer
            return self.ask("GET", "/")[0] > 0
        except ConnectionError:
            return False

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Send the signal, wait for the service to exit, and return the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE_S)

    def rss(self) -> int:
        """Return the service's resident memory in bytes."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send one request on a new connection; an HTTP error includes the end of the log."""
        try:
            return ask(self.port, method, path, body, headers)
        except http.client.HTTPException as error:
            error.add_note(self.log[-3000:])
            raise


class Answering(Protocol):
    """A process or service that answers requests."""

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]: ...


def ask(
    port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Send one request on a new connection; a body of type bytes is sent unchanged."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        connection.request(method, path, data, {**sent, **(headers or {})})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def end_game_servers(folder: Path) -> list[int]:
    """Kill the game servers that a killed deploy server left in ``folder``; return their pids."""
    ended = []
    for pid in list_processes():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            place = os.readlink(f"/proc/{pid}/cwd").removesuffix(" (deleted)")
            if f"{TAG}=".encode() in environ and Path(place).is_relative_to(folder.resolve()):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
        except OSError:  # the process has just ended, or belongs to another user
            continue
    return ended


def metagame_environ(folder: Path, port: int, **environ: str) -> dict[str, str]:
    """Return the environment that a metagame needs to start."""
    private, public = signing_keys()
    return {
        "PORT": str(port),
        "AUTH_MODE": "APIKEY",
        "AUTH_SIGNING_PRIVKEY_B64": private,
        "AUTH_SIGNING_PUBKEY_B64": public,
        "REGISTRATION_MODE": "OPEN",
        "DATABASE_URL": f"sqlite:///{folder}/svc.db",
    } | environ


@contextmanager
def metagame(folder: Path, **environ: str) -> Iterator[Service]:
    port = free_port()
    service = Service("svc-metagame", folder, metagame_environ(folder, port, **environ), port)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def env_file(folder: Path, environ: dict[str, str]) -> Path:
    """Write an environment file that tells svcctl where the metagame and its database are."""
    file = folder / "staff.env"
    names = ("DATABASE_URL", "PORT", "AUTH_SIGNING_PRIVKEY_B64")
    file.write_text("".join(f"{name}={environ[name]}\n" for name in names))
    return file


def register(service: Answering, name: str) -> dict[str, str]:
    """Register a player and return the key, token and account id."""
    status, body = service.ask("POST", "/svc/api/Register", {"Username": name})
    assert status == 200, body
    key = orjson.loads(body)["UUK"]
    status, body = service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})
    assert status == 200, body
    reply = orjson.loads(body)
    return {"key": key, "token": reply["access_token"], "id": reply["account_id"]}


def bearer(player: dict[str, str]) -> dict[str, str]:
    """Return the Authorization header for a player."""
    return {"Authorization": f"Bearer {player['token']}"}
