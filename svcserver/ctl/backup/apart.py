"""A restored host for a drill, isolated from the running one.

Database, keys, certificate and the rules of its game are the backup's. Its places are a throw-away
host's: ports, addresses, the firewall, the game's files and the stand-in for game servers. So it
meets neither the running host nor its players, and nobody is told of what happens to it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from svcserver.ctl.backup.archive import Contents
from svcserver.ctl.backup.restoring import restored
from svcserver.ctl.backup.throwaway import ThrowAway
from svcserver.ctl.host_creation import create_host
from svcserver.edge.certificate import CERT_FILE, KEY_FILE
from svcserver.kernel.settings import parse_env_file
from svcserver.stack.alerts.channels import PATTERN

LOCALHOST = "127.0.0.1"
# settings that name a place, who may come there, or what is written where
PLACE = re.compile(r"PORT|HOST|BIND|URL|LOG|ALLOW|SECRET|CERT|GATEWAY_KEY|CONNECTIONS")
A_PATH = re.compile(r"_(DIR|FILE|PATH)\Z")
# what the throw-away host's metagame.env says of the game itself: the backup's word counts
THE_GAMES = re.compile(
    r"AUTH_SIGNING_.*|DATABASE_URL|SERVER_NAME|SAVE_HISTORY_KEEP|CITY_MAP|STORE|GUILDS|"
    r"CHAT_PRESENCE|NODE_ENV"
)


@define(eq=False, kw_only=True)
class Restored(ThrowAway):
    """The host of an unpacked backup, in a scratch folder."""

    contents: Contents
    parts: Path = field()

    def make(self) -> None:
        """Restore it as after the loss of a machine, then isolate it."""
        restored(self.contents, self.parts, self.folder, self.folder)
        plain = self.folder.with_name("plain")
        create_host(plain, LOCALHOST, "owner", ports=self.ports, demo=True)
        set_apart(self.folder, plain)


def set_apart(folder: Path, plain: Path) -> None:
    """Give the host in ``folder`` the ports and addresses of the one in ``plain``."""
    for path in [*folder.glob(PATTERN), folder / "stack.env"]:
        path.unlink(missing_ok=True)  # nobody is told of a drill, and it has one worker
    ours, lent = _read(folder / "metagame.env"), _read(plain / "metagame.env")
    game = {name: text for name, text in lent.items() if not THE_GAMES.fullmatch(name)}
    metagame = {"CITY_MAP": lent["CITY_MAP"], **_rules(ours, folder), **game}
    metagame["DATABASE_URL"] = ours.get("DATABASE_URL", "")
    _write(folder / "metagame.env", metagame)
    _certificate(folder, plain)
    gateway = _rules(_read(folder / "gateway.env"), folder) | _read(plain / "gateway.env")
    gateway |= {"GATEWAY_CERT": str(folder / CERT_FILE), "GATEWAY_KEY": str(folder / KEY_FILE)}
    _write(folder / "gateway.env", gateway)
    deploy = {**_read(plain / "deploy.env"), "CITY_MAP": metagame["CITY_MAP"]}
    _write(folder / "deploy.env", deploy)
    for name in ("content.env", "allowlist.env", "relay.env"):
        _write(folder / name, _read(plain / name))


def _rules(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings that name no place, and files that the backup holds."""
    return {
        name: text
        for name, text in values.items()
        if not PLACE.search(name) and (A_PATH.search(name) is None or _is_there(text, folder))
    }


def _is_there(text: str, folder: Path) -> bool:
    path = (folder / text).resolve()
    return folder.resolve() in path.parents and path.exists()


def _certificate(folder: Path, plain: Path) -> None:
    """Use the gateway's own pair if the backup holds it, else the throw-away host's."""
    named = _read(folder / "gateway.env")
    pair = [
        folder / named.get("GATEWAY_CERT", CERT_FILE),
        folder / named.get("GATEWAY_KEY", KEY_FILE),
    ]
    if not all(_is_there(str(path), folder) for path in pair):
        pair = [plain / CERT_FILE, plain / KEY_FILE]
    for source, name in zip(pair, (CERT_FILE, KEY_FILE), strict=True):
        if source != folder / name:
            shutil.copy(source, folder / name)


def _read(path: Path) -> dict[str, str]:
    return parse_env_file(path.read_text("utf-8-sig")) if path.is_file() else {}


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    text = "".join(f"{name}={value}\n" for name, value in values.items() if value)
    path.write_text(text, encoding="utf-8")
