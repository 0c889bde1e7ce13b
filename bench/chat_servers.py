"""The chat servers that the bench compares, each tuned for one core."""

from __future__ import annotations

import asyncio
import base64
import os
import pwd
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import jwt
from attrs import frozen

from bench.chat_client import Login, Place
from bench.client import connect, request
from bench.players import Player
from bench.servers import free_port, metagame, running
from svcserver.ctl.keys import new_signing_keys

PLAYERS = 1_000
AT_ONCE = 25  # players who register, or enter a room
FAST = "1000,1000"  # burst and rate of room messages per client, too high to throttle the fan-out
USUAL = "8,1"
NOBODY = "nobody"
BARE = "bare autobahn"

PROSODY = """
run_as_root = {root}
daemonize = false
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
interfaces = {{ "127.0.0.1" }}
http_ports = {{ {port} }}
http_interfaces = {{ "127.0.0.1" }}
https_ports = {{}}
c2s_ports = {{}}
s2s_ports = {{}}
legacy_ssl_ports = {{}}
network_backend = "epoll"
modules_enabled = {{
  "roster"; "saslauth"; "disco"; "ping"; "websocket"; "presence"; "message"; "iq"; "blocklist"
}}
modules_disabled = {{ "s2s"; "offline"; "tls" }}
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
consider_websocket_secure = true
cross_domain_websocket = true
authentication = "internal_plain"
storage = "internal"
log = {{ warn = "*console" }}
network_settings = {{ nagle = false }}
VirtualHost "localhost"
Component "muc.localhost" "muc"
  muc_room_locking = false
  muc_room_default_public = true
  max_history_messages = 0
  muc_room_default_history_length = 0
  restrict_room_creation = false
"""
EJABBERD = """
hosts: [localhost]
loglevel: warning
auth_method: internal
auth_password_format: plain
disable_sasl_mechanisms: ["X-OAUTH2", "SCRAM-SHA-1"]
websocket_ping_interval: 60
websocket_timeout: 300
listen:
  - port: {port}
    ip: "127.0.0.1"
    module: ejabberd_http
    backlog: 1024
    tls: false
    request_handlers: {{/ws: ejabberd_http_ws, /api: mod_http_api}}
acl:
  local: {{user_regexp: ""}}
  loopback: {{ip: [127.0.0.0/8]}}
access_rules:
  local: {{allow: local}}
  c2s: {{allow: all}}
  muc_create: {{allow: local}}
api_permissions:
  "bench":
    who: {{access: {{allow: [{{acl: loopback}}]}}}}
    what: [register]
shaper_rules: {{max_user_sessions: 100, c2s_shaper: none}}
modules:
  mod_blocking: {{}}
  mod_disco: {{}}
  mod_http_api: {{}}
  mod_muc:
    access: all
    access_create: muc_create
    access_persistent: none
    hosts: ["muc.localhost"]
    history_size: 0
    max_users: 5000
    max_users_presence: 5000
    max_user_conferences: 1000
    user_message_shaper: none
    user_presence_shaper: none
    default_room_options: {{mam: false, public: true, allow_private_messages: true}}
  mod_ping: {{}}
  mod_privacy: {{}}
  mod_roster: {{}}
"""


@frozen
class Server:
    """A running chat server, and the accounts that can log in."""

    name: str
    pid: int
    place: Place
    logins: list[Login]
    http: int = 0  # the metagame's own port


@contextmanager
def ours(folder: Path, rate: str = FAST, count: int = PLAYERS) -> Iterator[Server]:
    """Run the metagame with its chat; players log in with tokens that the metagame signed."""
    chat = free_port()
    with metagame(folder, CHAT="1", CHAT_PORT=str(chat), CHAT_MESSAGE_RATE=rate) as (port, pid):
        logins = register_players(port, count)
        yield Server("ours", pid, Place(chat, "//", "svc.local"), logins, port)


def register_players(port: int, count: int) -> list[Login]:
    """Register players of a metagame, several of them concurrently."""

    async def register() -> list[Login]:
        cast = [Player(port, random.Random(n)) for n in range(count)]
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(player.arrive() for player in cast[first : first + AT_ONCE]))
            for player in cast[first : first + AT_ONCE]:
                player.leave()
        return [Login(player.account, player.token, player.name) for player in cast]

    return asyncio.run(register())


def strangers() -> list[Login]:
    """Return the accounts that the other chat servers use."""
    return [Login(f"u{n}", f"pw-u{n}", f"Player{n}") for n in range(PLAYERS)]


@contextmanager
def bare(folder: Path) -> Iterator[Server]:
    """Run a bare autobahn server, which verifies a token with RS256 at each login."""
    port, keys = free_port(), new_signing_keys()
    private = base64.b64decode(keys.private)
    logins = [
        Login(login.account, jwt.encode({"sub": login.account}, private, "RS256"), login.name)
        for login in strangers()
    ]
    command = [sys.executable, "-m", "bench.bare_chat", str(port), keys.public]
    with running(command, port, folder / "bare.log", {}) as pid:
        yield Server(BARE, pid, Place(port, "/", "localhost"), logins)


@contextmanager
def prosody(folder: Path) -> Iterator[Server]:
    """Run Prosody with its accounts in files."""
    port, logins = free_port(), strangers()
    accounts = folder / "prosody" / "data" / "localhost" / "accounts"
    accounts.mkdir(parents=True)
    for login in logins:
        words = f'return {{ ["password"] = "{login.password}"; }};'
        (accounts / f"{login.account}.dat").write_text(words)
    home = folder / "prosody"
    config = home / "prosody.cfg.lua"
    config.write_text(PROSODY.format(folder=home, port=port, root="false"))
    command = unprivileged(home, ["prosody", "--config", str(config), "-F"])
    with running(command, port, folder / "prosody.log", {}) as pid:
        yield Server("prosody", pid, Place(port, "/xmpp-websocket", "localhost"), logins)


@contextmanager
def ejabberd(folder: Path) -> Iterator[Server]:
    """Run ejabberd without a distribution port or busy waiting, which would distort CPU time."""
    port, logins, home = free_port(), strangers(), folder / "ejabberd"
    home.mkdir()
    (home / "ejabberd.yml").write_text(EJABBERD.format(port=port))
    [library, *_] = Path("/usr/lib").glob("*/ejabberd-*/ebin")
    environ = {
        "ERL_LIBS": str(library.parents[1]),
        "EJABBERD_CONFIG_PATH": str(home / "ejabberd.yml"),
        "EJABBERD_LOG_PATH": str(home / "ejabberd.log"),
        "ERL_CRASH_DUMP": str(home / "crash.dump"),
        "HOME": str(home),
    }
    vm = "+K true +P 250000 +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -noinput"
    command = ["erl", *vm.split(), "-mnesia", "dir", f'"{home}/spool"', "-s", "ejabberd"]
    with running(unprivileged(home, command), port, folder / "ejabberd.log", environ) as pid:
        asyncio.run(_register(port, logins))
        yield Server("ejabberd", pid, Place(port, "/ws", "localhost"), logins)


async def _register(port: int, logins: list[Login]) -> None:
    wire = await connect(port)
    for login in logins:
        body = {"user": login.account, "host": "localhost", "password": login.password}
        ask = request("POST", "/api/register", body)
        status, output = await wire.send(ask)
        assert status == 200, output
    wire.close()


def unprivileged(home: Path, command: list[str]) -> list[str]:
    """Return a command that runs ``command`` as the user ``nobody``, if we are root.

    That user then owns ``home``.
    """
    if os.geteuid() != 0:
        return command
    who = pwd.getpwnam(NOBODY)
    home.parent.chmod(0o711)
    for path in (home, *home.rglob("*")):
        os.chown(path, who.pw_uid, who.pw_gid)
    ids = [f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, "--", *command]


CONTESTANTS = {"ours": ours, BARE: bare, "prosody": prosody, "ejabberd": ejabberd}


def contestant(name: str, folder: Path) -> AbstractContextManager[Server]:
    """Run a chat server while the context lasts, with its own subfolder of ``folder``."""
    home = Path(tempfile.mkdtemp(dir=folder))
    home.chmod(0o711)  # some servers run as another user
    return CONTESTANTS[name](home)
