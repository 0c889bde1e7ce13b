"""The functions that make, store and check the gateway's certificate.

Invites contain the certificate's fingerprint, so a certificate is overwritten only with ``force``.
A renewal has two steps. First the next certificate is made and stored beside the current one, so
that invites name both certificates. Later the next certificate replaces the current one. Spec: 2 §4
Gateway.
"""

import hashlib
import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from svcserver.edge.invite import is_host

CERT_FILE, KEY_FILE = "gateway-cert.pem", "gateway-key.pem"
WARN_DAYS = 30
_LONGEST_NAME = 64  # maximum length of a common name


class BadCertificate(Exception):
    """The error for an unusable certificate or key; ``str()`` gives the cause and the remedy."""

    def __init__(self, what: str, fault: str) -> None:
        super().__init__(fault)
        self.what = what  # "certificate" or "key": the faulty file


@frozen
class Pair:
    """A certificate and its private key, both in PEM format."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.certificate)


def make_pair(
    hosts: Sequence[str],
    *,
    now: datetime | None = None,
    years: int = 10,
    issuer: Pair | None = None,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Pair:
    """Make a certificate (P-256, SHA-256) and its key for these host names and addresses.

    The certificate is valid from one day ago, because a player's clock may be slow. Each host
    is a subject alternative name. ``issuer`` signs the certificate; without it, the certificate is
    self-signed. ``usage`` is the only extended key usage.
    """
    if not hosts:
        raise BadCertificate("certificate", "has no host; give at least one host name or address")
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
    except ValueError:
        raise BadCertificate(
            "certificate", "has a host that is not a valid host name or address"
        ) from None
    builder = (
        _builder(hosts[0], key, now, years, issuer)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    return _signed(builder, key, issuer)


def make_authority(name: str, *, now: datetime | None = None, years: int = 20) -> Pair:
    """Make the certificate and key of a certificate authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    limits = x509.BasicConstraints(ca=True, path_length=0)
    builder = _builder(name, key, now or datetime.now(UTC), years, None)
    return _signed(builder.add_extension(limits, critical=True), key, None)


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, now: datetime, years: int, issuer: Pair | None
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_NAME])])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else _parsed(issuer.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365 * years + years // 4))
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer: Pair | None
) -> Pair:
    certificate = builder.sign(key if issuer is None else _private(issuer.key), hashes.SHA256())
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not is_host(host.lower().removeprefix("*.")):
            raise
        return x509.DNSName(host)


def write_pair(pair: Pair, folder: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the certificate and the key (mode 0600) into ``folder``; see ``write_pair_to``."""
    return write_pair_to(pair, (folder / CERT_FILE, folder / KEY_FILE), force=force)


def write_pair_to(
    pair: Pair, paths: tuple[Path, Path], *, force: bool = False
) -> tuple[Path, Path]:
    """Write the pair to two files; without ``force``, raises BadCertificate if a file exists."""
    for path in paths:
        if path.exists() and not force:
            raise BadCertificate(
                "certificate",
                f"already exists at {path}; a new one breaks every invite: "
                "use --force to replace it anyway",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
    for path, content, mode in ((paths[0], pair.certificate, 0o644), (paths[1], pair.key, 0o600)):
        fresh = path.with_name(path.name + ".new")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        fresh.replace(path)
    return paths


def next_to(path: Path) -> Path:
    """Return the path of the prepared next certificate or key, beside the current file."""
    return path.with_name(f"{path.stem}-next{path.suffix}")


def switch_pair(paths: tuple[Path, Path]) -> Pair:
    """Replace the current pair with the prepared one; the old files become ``...-previous``.

    After a crash in the middle, a second call finishes the switch. Raises BadCertificate if no
    pair is prepared, or if the prepared files are not a valid pair.
    """
    waiting = [path for path in paths if next_to(path).exists()]
    if not waiting:
        raise BadCertificate(
            "certificate", "has no prepared successor; prepare one with svcctl cert make"
        )
    new = read_pair(*(next_to(path) if path in waiting else path for path in paths))
    check_pair(new, datetime.now(UTC))
    for path in waiting:
        if path.exists():
            path.replace(path.with_name(f"{path.stem}-previous{path.suffix}"))
        next_to(path).replace(path)
    return new


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of the first PEM certificate's DER form, as 64 lowercase hex digits."""
    return fingerprint_of_der(_parsed(certificate).public_bytes(serialization.Encoding.DER))


def fingerprint_of_der(der: bytes) -> str:
    """Return the SHA-256 of a DER certificate that a TLS peer presented, as 64 hex digits."""
    return hashlib.sha256(der).hexdigest()


def read_pair(certificate: Path, key: Path) -> Pair:
    """Read the certificate and the key; raises BadCertificate with the unreadable file's name."""
    return Pair(_read(certificate, "certificate"), _read(key, "key"))


def check_pair(pair: Pair, now: datetime) -> list[str]:
    """Return warnings about a pair; raises BadCertificate if no client would accept it."""
    certificate = _parsed(pair.certificate)
    private = _private(pair.key)
    spki = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*spki) != certificate.public_key().public_bytes(*spki):
        raise BadCertificate("key", "does not belong to the certificate; give the matching pair")
    if certificate.not_valid_after_utc <= now:
        raise BadCertificate(
            "certificate",
            f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}; "
            "make a new one (svcctl cert make --force) and send new invites",
        )
    if certificate.not_valid_before_utc > now:
        raise BadCertificate(
            "certificate",
            f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}; "
            "check this host's clock or make a new one",
        )
    left = (certificate.not_valid_after_utc - now).days
    if left < WARN_DAYS:
        return [
            f"the certificate expires in {left} days; prepare the next one with svcctl cert make, "
            "send players new invites, and then use it with svcctl cert switch"
        ]
    return []


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as why:
        raise BadCertificate(
            what, f"cannot be read from {path}: {why.strerror}; make it with svcctl cert make"
        ) from None


def _parsed(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise BadCertificate(
            "certificate", "is not a PEM certificate; make one with svcctl cert make"
        ) from None


def _private(pem: bytes) -> Any:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise BadCertificate(
            "key", "must be an unencrypted PEM private key; make one with svcctl cert make"
        ) from None
