"""A certificate authority for tests, and the certificates that it signs."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from attrs import define, field
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@define
class Authority:
    """A certificate authority; the system does not trust its root certificate in ``file``."""

    folder: Path
    _key: ec.EllipticCurvePrivateKey = field(
        factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    _name: x509.Name = field(factory=lambda: _named("a test's authority"))

    def __attrs_post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.file.write_bytes(self._signed(self._name, self._key.public_key(), None))

    @property
    def file(self) -> Path:
        """Return the path of the root certificate."""
        return self.folder / "ca.pem"

    def certificate(self, address: str) -> tuple[Path, Path]:
        """Return a signed certificate for an IP address, with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        files = self.folder / f"{address}.pem", self.folder / f"{address}.key"
        files[0].write_bytes(self._signed(_named(address), key.public_key(), address))
        stored = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        files[1].write_bytes(stored)
        return files

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, address: str | None
    ) -> bytes:
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=address is None, path_length=None), True)
        )
        if address is not None:
            alternative = x509.IPAddress(ipaddress.ip_address(address))
            made = made.add_extension(x509.SubjectAlternativeName([alternative]), False)
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
