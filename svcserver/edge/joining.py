"""The join string of a host and the letter for a friend, made from the configuration folder."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path

from svcserver.edge.certificate import CERT_FILE, BadCertificate, fingerprint, next_to
from svcserver.edge.invite import BadInvite, Invite, decode, encode
from svcserver.edge.sending import sentences
from svcserver.kernel.settings import BadSetting, off_unless_1, parse_env_file

LAUNCHER_FILE = "svc-launcher.pyz"  # the host's page /join links to it
LAUNCHER_PATH = f"/content/v1/launcher/{LAUNCHER_FILE}"  # on the content server
CHECKSUM_FILE = f"{LAUNCHER_FILE}.sha256"  # the checksum file, in sha256sum's format
_CHECKSUM = re.compile(rf"([0-9a-f]{{64}})  {re.escape(LAUNCHER_FILE)}\n?\Z")


class NoJoinString(Exception):
    """The folder does not describe a host that players can join; ``str()`` gives the cause."""


def join_string(folder: Path, code: str) -> str | None:
    """Return the join string with the invite ``code``, or None for a loopback-only host.

    A host without a gateway is private: its join string has the metagame's own address.
    Raises NoJoinString if the folder's files name no usable host.
    """
    try:
        if not (folder / "gateway.env").is_file():
            return _private(_read(folder, "metagame"), code)
        relay, gateway, metagame = (
            _read(folder, component) for component in ("relay", "gateway", "metagame")
        )
        certificate = folder / gateway.get("GATEWAY_CERT", CERT_FILE)
        upcoming = next_to(certificate)
        return encode(
            Invite(
                host=relay.get("SVC_RELAY_HOST", ""),
                port=int(gateway.get("GATEWAY_PORT", "") or 443),
                name=metagame.get("SERVER_NAME", "") or "Game Server",
                code=code,
                fingerprint=fingerprint(certificate.read_bytes()),
                next_fingerprint=fingerprint(upcoming.read_bytes()) if upcoming.is_file() else "",
            )
        )
    except (BadInvite, BadCertificate, BadSetting, OSError, ValueError) as error:
        raise NoJoinString(str(error)) from error


def letter(folder: Path, text: str) -> list[str]:
    """Return three sentences, with the join string ``text``, that an owner sends to a friend."""
    invite = decode(text)
    return sentences(invite, launcher_address(folder, invite), launcher_checksum(folder))


def launcher_address(folder: Path, invite: Invite) -> str:
    """Return the URL or file of the launcher that the host offers, or "" if it offers none."""
    if not has_launcher(folder):
        return ""
    if invite.public:
        return join_address(folder, invite) or f"{_origin(invite)}{LAUNCHER_PATH}"
    content = _read(folder, "content")  # in a private network, players reach the metagame directly
    address, port = content.get("BIND_HOST", ""), content.get("PORT", "")
    return f"http://{address}:{port}{LAUNCHER_PATH}" if address == invite.host and port else ""


def launcher_folder(folder: Path) -> Path | None:
    """Return the folder of the launcher that the host offers, or None if it offers none."""
    try:
        folder_name = _read(folder, "content").get("CONTENT_LAUNCHER_DIR", "").strip()
    except (BadSetting, OSError):
        return None
    return folder / folder_name if folder_name else None


def has_launcher(folder: Path) -> bool:
    """Return whether the host offers a launcher to its players."""
    where = launcher_folder(folder)
    return where is not None and (where / LAUNCHER_FILE).is_file()


def launcher_checksum(folder: Path) -> str:
    """Return the launcher's stored SHA-256, or "" if the launcher file is newer.

    The launcher itself is not read: it has several megabytes, and the dashboard asks often.
    """
    where = launcher_folder(folder)
    if where is None:
        return ""
    try:
        match = _CHECKSUM.match((where / CHECKSUM_FILE).read_text(encoding="ascii"))
        old = (where / LAUNCHER_FILE).stat().st_mtime > (where / CHECKSUM_FILE).stat().st_mtime
    except (OSError, ValueError):
        return ""
    return match[1] if match is not None and not old else ""


def join_address(folder: Path, invite: Invite) -> str:
    """Return the URL of the host's public join page, or "" if that page is off."""
    try:
        on = off_unless_1(_read(folder, "gateway").get("GATEWAY_JOIN_PAGE", ""))
    except (BadSetting, OSError):  # a private host has no gateway
        on = False
    return f"{_origin(invite)}/join" if on else ""


def _origin(invite: Invite) -> str:
    port = "" if invite.port == 443 else f":{invite.port}"
    return f"https://{invite.host}{port}"


def _private(metagame: dict[str, str], code: str) -> str | None:
    host = metagame.get("BIND_HOST", "")
    if not host or host == "localhost" or ip_address(host).is_loopback:
        return None
    name = metagame.get("SERVER_NAME", "") or "Game Server"
    return encode(Invite(host=host, port=int(metagame.get("PORT", "") or 0), name=name, code=code))


def _read(folder: Path, component: str) -> dict[str, str]:
    return parse_env_file((folder / f"{component}.env").read_text(encoding="utf-8-sig"))
