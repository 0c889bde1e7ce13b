"""A ban removes the player's address from the firewall rule of a running hunt.

Real processes are needed because gateway, metagame, deploy server and allowlist helper each do
a part of a ban.
"""

import json
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from attrs import define, field

from svcserver.edge.certificate import fingerprint, fingerprint_of_der
from svcserver.kernel.json import BadJson, parse
from tests.ctl.hosts import demo_host, read_output, run, stack, value
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.test_moderation import AT_MOST_S
from tests.support.processes import eventually
from tests.support.proves import proves
from tests.support.watch import Watch

pytestmark = pytest.mark.live

HERE = "127.0.0.1"  # from where everybody plays
ANSWER_S = 20.0


class Wrong(Exception):
    """A failed request of a player; the text says what the player notices."""


@define
class Player:
    """One player, whose invite names the gateway's certificate."""

    port: int
    pinned: str
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    character: str = ""
    version: int = 0

    def ask(self, path: str, sent: Any = None, *, form: str = "") -> Any:
        """Send a request through the gateway; raise Wrong if it fails."""
        # the default context would load the system's certificate authorities for nothing
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # the certificate is pinned, as by a relay
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        line = HTTPSConnection("127.0.0.1", self.port, timeout=ANSWER_S, context=context)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        body: bytes | None = None
        if form:
            body, headers["Content-Type"] = form.encode(), "application/x-www-form-urlencoded"
        elif sent is not None:
            body, headers["Content-Type"] = json.dumps(sent).encode(), "application/json"
        try:
            line.connect()
            shown = fingerprint_of_der(line.sock.getpeercert(True) or b"")
            if shown != self.pinned:
                raise Wrong("the gateway shows another certificate than the invite names")
            line.request("GET" if body is None else "POST", path, body, headers)
            messages = line.getresponse()
            reply, status = messages.read(), messages.status
        except (OSError, HTTPException) as why:
            raise Wrong(f"the host cannot be reached ({type(why).__name__})") from None
        finally:
            line.close()
        if status != 200:
            raise Wrong(f"{path} was answered with {status}")
        return parse(reply)

    def come(self, name: str) -> None:
        """Register, log in and read the character."""
        self.key = str(self.ask("/svc/api/Register", {"Username": name})["UUK"])
        self.log_in()

    def log_in(self) -> None:
        """Log in as the game does at its start."""
        self.token = ""
        form = f"grant_type=exchange_code&exchange_code={self.key}&token_type=eg1"
        self.token = str(self.ask("/account/api/oauth/token", form=form)["access_token"])
        [result] = self.ask("/character")
        self.character, self.version = str(result["id"]), int(result["updateVersion"])


class Hunting:
    """A host whose players all connect from one address, and its staff's commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pinned = fingerprint((folder / "gateway-cert.pem").read_bytes())

    def player(self, name: str) -> Player:
        """Register a player who enters through the gateway."""
        made = Player(int(value(self.folder, "gateway", "GATEWAY_PORT")), self.pinned)
        made.come(name)
        return made

    def open(self) -> bool:
        """Return whether the firewall rule admits the player, or has a pending change."""
        request = HTTPConnection(
            HERE, int(value(self.folder, "allowlist", "ALLOWLIST_PORT")), timeout=20
        )
        secret = value(self.folder, "allowlist", "ALLOWLIST_SECRET")
        request.request("GET", "/status", headers={"x-allowlist-secret": secret})
        status: dict[str, Any] = json.loads(request.getresponse().read())
        request.close()
        return HERE in [entry["ip"] for entry in status["entries"]] or bool(status["pending"])

    def act(self, *words: str) -> None:
        """Run a command as staff."""
        ran = run(*words, "--config", self.folder)
        assert ran.returncode == 0, ran.stderr


def hunt(player: Player) -> None:
    """Start a hunt for one player and wait until its game server runs."""
    player.ask("/candidate/join", TUTORIAL)
    for _ in range(400):  # slowly, because the gateway limits how often one address connects
        if player.ask("/candidate/status")["status"] == "IN_PROGRESS":
            break
        Event().wait(0.5)
    else:
        pytest.fail("no game server is there")
    beat(player)


def beat(player: Player) -> None:
    with suppress(BadJson):  # the answer is a number
        player.ask("/heartbeat", {"map": "cora_jamima", "state": "island"})


def shut_in_time(hunting: Hunting) -> None:
    """Assert that the firewall rule soon excludes the player."""
    with Watch() as watch:
        eventually(lambda: not hunting.open())
    assert watch.seconds < AT_MOST_S


# slow: a stack of six processes, and the time that a rule of the firewall takes
@proves("a ban or a kick shuts the game ports")
def test_a_ban_during_a_hunt_shuts_the_game_ports(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder))
        hunting = Hunting(folder)
        ann = hunting.player("Ann_1")
        hunt(ann)
        eventually(hunting.open)

        hunting.act("ban", "Ann_1", "--for", "1h", "--reason", "cheats")
        shut_in_time(hunting)
        assert '"withdrawn","ip":"127.0.0.1"' in (folder / "allowlist-audit.log").read_text()
        with pytest.raises(Wrong, match="401"):
            beat(ann)

        # from the same address, in the minute that the gateway allows
        bob = hunting.player("Bob_1")
        eventually(hunting.open)
        hunting.act("unban", "Ann_1")
        ann.log_in()
        hunting.act("kick", "Ann_1", "--reason", "afk")
        with pytest.raises(Wrong, match="401"):
            for _ in range(100):
                beat(ann)
                Event().wait(0.2)
        assert hunting.open()  # Bob plays there
        beat(bob)
        hunting.act("kick", "Bob_1", "--reason", "afk")
        shut_in_time(hunting)
