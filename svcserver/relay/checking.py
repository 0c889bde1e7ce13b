"""The blocking check of the server's certificate against the pin (``svc-relay --check``)."""

import hashlib
import socket
import ssl

from svcserver.relay.relaying import Target


def presented(target: Target, timeout_s: float) -> str:
    """Return the SHA-256 of ``target``'s certificate; raises OSError if TLS fails."""
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
    """Return whether the certificate matches the pin, and a sentence for the player."""
    address = f"{target.host}:{target.port}"
    try:
        fingerprint = presented(target, timeout_s)
    except OSError as error:
        return False, f"upstream_unreachable: no TLS connection to {address}: {error}"
    if fingerprint in target.pins:
        return True, f"{address} presents the pinned certificate {fingerprint}"
    return False, (
        f"certificate_mismatch: {address} presents {fingerprint}, but the invite has "
        f"{' or '.join(target.pins)}; ask the owner for a new invite"
    )
