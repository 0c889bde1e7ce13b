"""The join string of a host, and the sentences that explain it to a friend."""

import re
from ipaddress import ip_address
from pathlib import Path

from svcserver.edge.certificate import CERT_FILE, BadCertificate, fingerprint, next_to
from svcserver.edge.invite import BadInvite, Invite, decode, encode
from svcserver.edge.sending import sentences
from svcserver.kernel.settings import BadSetting, off_unless_1, parse_env_file

LAUNCHER_FILE = "svc-launcher.pyz"  # for every system that has Python
WINDOWS_FILE = "svc-launcher-windows.zip"
LAUNCHER_FILES = (WINDOWS_FILE, LAUNCHER_FILE)  # the host's page /join links to them
LAUNCHER_PATH = "/content/v1/launcher/"  # on the content server, followed by the file's name
CHECKSUM_SUFFIX = ".sha256"  # of the file with a launcher file's checksum (sha256sum's format)
_CHECKSUM = re.compile(r"([0-9a-f]{64})  (\S+)\n?\Z")


class NoJoinString(Exception):
    """The error for a folder without a host that players can join; ``str()`` gives the cause."""


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
    """Return three sentences that tell a friend how to join; ``text`` is the join string."""
    invite = decode(text)
    sums = {name: launcher_checksum(folder, name) for name in offered(folder)}
    return sentences(invite, launcher_address(folder, invite), sums)


def launcher_address(folder: Path, invite: Invite) -> str:
    """Return where players get the launcher, or "" if the host offers no launcher.

    The result is the URL of the page /join, or the URLs of the files if that page is off.
    """
    names = offered(folder)
    if not names:
        return ""
    if invite.public:
        if page := join_address(folder, invite):
            return page
        origin = _origin(invite)
    else:
        content = _read(folder, "content")  # private players reach the metagame directly
        address, port = content.get("BIND_HOST", ""), content.get("PORT", "")
        if address != invite.host or not port:
            return ""
        origin = f"http://{address}:{port}"
    return " or ".join(f"{origin}{LAUNCHER_PATH}{name}" for name in names)


def launcher_folder(folder: Path) -> Path | None:
    """Return the folder of the launcher files that the host offers, or None if it offers none."""
    try:
        folder_name = _read(folder, "content").get("CONTENT_LAUNCHER_DIR", "").strip()
    except (BadSetting, OSError):
        return None
    return folder / folder_name if folder_name else None


def offered(folder: Path) -> list[str]:
    """Return the names of the launcher files that the host offers, with the Windows file first."""
    where = launcher_folder(folder)
    return [name for name in LAUNCHER_FILES if where is not None and (where / name).is_file()]


def launcher_checksum(folder: Path, name: str) -> str:
    """Return the stored SHA-256 of a launcher file, or "" if no current SHA-256 is stored.

    Only the checksum file is read, because the launcher is large.
    """
    where = launcher_folder(folder)
    if where is None:
        return ""
    sums = where / f"{name}{CHECKSUM_SUFFIX}"
    try:
        match = _CHECKSUM.match(sums.read_text(encoding="ascii"))
        old = (where / name).stat().st_mtime > sums.stat().st_mtime
    except (OSError, ValueError):
        return ""
    return match[1] if match is not None and match[2] == name and not old else ""


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
