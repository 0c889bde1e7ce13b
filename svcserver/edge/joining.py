"""The join string of a host, from its configuration folder: what a player's launcher takes."""

from __future__ import annotations

from pathlib import Path

from svcserver.edge.certificate import BadCertificate, fingerprint
from svcserver.edge.invite import BadInvite, Invite, encode
from svcserver.kernel.settings import BadSetting, parse_env_file


class NoJoinString(Exception):
    """The folder describes a host, but not one that players can be told; says why."""


def join_string(folder: Path, code: str) -> str | None:
    """The string that invites with ``code``; None for a host without a gateway.

    Raises NoJoinString where the folder's files say no usable host.
    """
    if not (folder / "gateway.env").is_file():
        return None
    try:
        relay, gateway, metagame = (
            parse_env_file((folder / f"{one}.env").read_text(encoding="utf-8-sig"))
            for one in ("relay", "gateway", "metagame")
        )
        certificate = folder / gateway.get("GATEWAY_CERT", "gateway-cert.pem")
        return encode(
            Invite(
                host=relay.get("SVC_RELAY_HOST", ""),
                port=int(gateway.get("GATEWAY_PORT", "") or 443),
                name=metagame.get("SERVER_NAME", "") or "Game Server",
                code=code,
                fingerprint=fingerprint(certificate.read_bytes()),
            )
        )
    except (BadInvite, BadCertificate, BadSetting, OSError, ValueError) as why:
        raise NoJoinString(str(why)) from why
