"""Checks, blocking, that the server presents the pinned certificate (``svc-relay --check``)."""

from __future__ import annotations

import hashlib
import socket
import ssl

from svcserver.relay.relaying import Target


def presented(target: Target, timeout_s: float) -> str:
    """The SHA-256 of the certificate that ``target`` presents; raises OSError without TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((target.host, target.port), timeout_s) as raw,
        context.wrap_socket(raw, server_hostname=target.host) as wrapped,
    ):
        der = wrapped.getpeercert(binary_form=True)
    if der is None:
        raise ssl.SSLError("no certificate")
    return hashlib.sha256(der).hexdigest()


def verdict(target: Target, timeout_s: float) -> tuple[bool, str]:
    """Whether the pin matches, and a sentence for the player."""
    where = f"{target.host}:{target.port}"
    try:
        found = presented(target, timeout_s)
    except OSError as why:
        return False, f"upstream_unreachable: no TLS connection to {where}: {why}"
    if found in target.pins:
        return True, f"{where} presents the pinned certificate {found}"
    return False, (
        f"certificate_mismatch: {where} presents {found}, the invite names "
        f"{' or '.join(target.pins)}; ask the owner for a new invite"
    )
