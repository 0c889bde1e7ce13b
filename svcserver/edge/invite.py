"""The invite: one string that tells a launcher which host to trust and how to join it.

Its form is ``svc://join?v=2&mode=public&host=...&port=443&fp=...&code=...&name=...``. During a
certificate renewal, ``fp2`` is the next certificate's fingerprint, and both certificates are
accepted. The string is a secret, because it contains the invite code. Spec: 2 §4 Launcher relay.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlsplit

from attrs import field, frozen

from svcserver.kernel.foreign_text import is_plain

SCHEME = "svc"
_START = f"{SCHEME}://join"
LONGEST = 2048  # maximum characters of an invite string
OVERLAY_DOMAINS = (".ts.net",)  # names inside the usual private overlay network
OVERLAY_SHARE = ("login.tailscale.com",)  # hosts of the overlay network's share links
_OVERLAY_NET = ipaddress.ip_network("100.64.0.0/10")
_FIELDS = ("v", "mode", "host", "port", "fp", "fp2", "code", "name", "share")
_WHOLE = re.compile(r"[1-9][0-9]{0,4}\Z")
_FP = re.compile(r"[0-9a-f]{64}\Z")
_CODE = re.compile(r"[A-Za-z0-9-]{4,64}\Z")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)\Z")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadInvite(ValueError):
    """The error for an unusable invite; ``str()`` is the message for the player.

    ``code`` names the fault for programs.
    """

    def __init__(self, code: str, *, is_cut: bool = False) -> None:
        super().__init__(_INCOMPLETE if is_cut else _WORDS[code])
        self.code = code


_INCOMPLETE = "this invite is incomplete. Copy the whole line"
_WORDS = {
    "empty": "the invite is empty",
    "too_long": f"the invite is longer than {LONGEST} characters",
    "not_invite": f"this is not an invite; it must begin with {_START}",
    "params": _INCOMPLETE,
    "version": "this program does not support the version of the invite",
    "mode": "the invite's mode does not fit its version",
    "host": "the invite has no valid host",
    "port": "the invite's port must be from 1 to 65535",
    "fp": _INCOMPLETE,
    "code": "the invite code must be 4 to 64 letters, digits or hyphens",
    "name": "the server's name must be 1 to 64 printable characters",
    "share": "the invite's share link must be an https link of the overlay network",
    "unreadable": "the invite file cannot be read",
    "private": "this invite is for a private network; the relay needs an invite of a public host",
}


@frozen
class Invite:
    """The contents of an invite.

    Only the invite of a public host has fingerprints. Only the invite of a private host may have
    ``share``: a link for access to the host's machine through the overlay network.
    ``next_fingerprint`` belongs to the certificate that will replace the current one.
    """

    host: str
    port: int
    name: str
    code: str = field(repr=False)
    fingerprint: str = ""
    share: str = field(default="", repr=False)
    next_fingerprint: str = ""

    @property
    def public(self) -> bool:
        """True if players connect over the internet, through the gateway."""
        return bool(self.fingerprint)


def encode(invite: Invite) -> str:
    """Return the string for ``invite``; raises BadInvite for values that ``decode`` rejects."""
    pairs: list[tuple[str, str]] = (
        [("v", "2"), ("mode", "public")] if invite.public else [("v", "1")]
    )
    pairs += [("host", invite.host), ("port", str(invite.port))]
    if invite.public:
        pairs.append(("fp", invite.fingerprint))
        if invite.next_fingerprint:
            pairs.append(("fp2", invite.next_fingerprint))
    pairs += [("code", invite.code), ("name", invite.name)]
    if invite.share:
        pairs.append(("share", invite.share))
    text = f"{_START}?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in pairs)
    decode(text)
    return text


def decode(text: str) -> Invite:
    """Parse the invite in ``text``; raises BadInvite."""
    text = text.strip()
    if not text:
        raise BadInvite("empty")
    if len(text) > LONGEST:
        raise BadInvite("too_long")
    head, question, query = text.partition("?")
    head = head.lower()
    if head.removesuffix("/") != _START:
        raise BadInvite("not_invite", is_cut=len(head) > len(SCHEME) and _START.startswith(head))
    if not question:
        raise BadInvite("params")
    try:
        return _checked(_parameters(query))
    except BadInvite as error:
        # the name is the last field in every known version
        if error.code == "version" or "&name=" in query:
            raise
        raise BadInvite(error.code, is_cut=True) from None


def _parameters(query: str) -> dict[str, str]:
    values: dict[str, str] = {}
    if "#" in query or _BAD_PERCENT.search(query):
        raise BadInvite("params")
    for part in query.split("&"):
        key, _, value = part.partition("=")
        try:
            decoded = unquote_to_bytes(value.replace("+", " ")).decode("utf-8")
        except UnicodeDecodeError:
            raise BadInvite("params") from None
        if key not in _FIELDS or key in values or not decoded:
            raise BadInvite("params")
        values[key] = decoded
    return values


def _checked(values: Mapping[str, str]) -> Invite:
    """Check the fields of an invite in the specified order. Spec: 2 §4 Launcher relay."""
    version = values.get("v")
    if version not in ("1", "2"):
        raise BadInvite("version")
    public = version == "2"
    if values.get("mode") != ("public" if public else None):
        raise BadInvite("mode")
    host = values.get("host", "").lower()
    if not (is_host(host) if public else is_private_host(host)):
        raise BadInvite("host")
    port = values.get("port", "443" if public else "")
    if not _WHOLE.match(port) or int(port) > 65535:
        raise BadInvite("port")
    fingerprint = values.get("fp", "")
    if (public and not _FP.match(fingerprint)) or (not public and fingerprint):
        raise BadInvite("fp")
    upcoming = values.get("fp2", "")
    if upcoming and (not public or not _FP.match(upcoming)):
        raise BadInvite("fp")
    code = values.get("code", "")
    if not is_code(code):
        raise BadInvite("code")
    name = values.get("name", "").strip()
    if not is_server_name(name):
        raise BadInvite("name")
    share = values.get("share", "")
    if share and (public or not _is_share(share)):
        raise BadInvite("share")
    return Invite(host, int(port), name, code, fingerprint, share, upcoming)


def is_code(code: str) -> bool:
    """Return whether ``code`` consists of 4 to 64 letters, digits and hyphens."""
    return _CODE.match(code) is not None


def is_server_name(name: str) -> bool:
    """Return whether ``name`` has 1 to 64 characters, none of them a control or bidi character."""
    return 1 <= len(name) <= 64 and is_plain(name)


def is_host(host: str) -> bool:
    """Return whether ``host`` is a plain IPv4 address or a DNS name."""
    labels = host.split(".")
    if labels[-1].isdigit():
        try:
            return str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            return False
    return len(host) <= 253 and all(_LABEL.match(label) for label in labels)


def is_private_host(host: str) -> bool:
    """Return whether ``host`` is a loopback or overlay address, which needs no TLS."""
    if not is_host(host):
        return False
    if host.split(".")[-1].isdigit():
        address = ipaddress.IPv4Address(host)
        return address.is_loopback or address in _OVERLAY_NET
    return host == "localhost" or host.endswith(OVERLAY_DOMAINS)


def _is_share(link: str) -> bool:
    try:
        parts = urlsplit(link)
        return (
            parts.scheme == "https"
            and parts.netloc.lower() in OVERLAY_SHARE
            and link.isascii()
            and link.isprintable()
            and " " not in link
        )
    except ValueError:
        return False


def read_invite(argument: str) -> Invite:
    """Read an invite from a string, or from a file.

    The file has the invite string on its first line, or is JSON with host, port, fingerprint,
    name and code, and optionally fingerprint2.
    """
    text = argument.strip()
    if text.lower().startswith(f"{SCHEME}:") or not text:
        return decode(text)
    try:
        with Path(text).open(encoding="utf-8-sig") as file:
            content = file.read(4 * LONGEST)
    except (OSError, ValueError):
        raise BadInvite("unreadable") from None
    if content.lstrip().startswith("{"):
        return _from_json(content)
    return decode(content.strip().partition("\n")[0])


def _from_json(content: str) -> Invite:
    try:
        invite: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise BadInvite("params") from None
    values = {"v": "2", "mode": "public"}
    for ours, theirs in (("host", "host"), ("port", "port"), ("fp", "fingerprint")):
        values[ours] = str(invite.get(theirs, ""))
    values["fp2"] = str(invite.get("fingerprint2", ""))
    values["code"] = str(invite.get("code", "")) or "none"
    values["name"] = str(invite.get("name", "")) or values["host"]
    return _checked(values)
