"""The offer of a launcher version, signed with the key of the gateway's certificate.

A launcher knows the certificate's fingerprint from its invite. So the launcher can check that an
offer comes from the host's owner, even if an attacker controls the server that stores the file.
"""

import base64
import binascii
import re
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from svcserver.edge.certificate import Pair, fingerprint_of_der
from svcserver.kernel import json

SUFFIX = ".sig"  # of the file with a launcher file's offer
LONGEST = 64 * 1024  # bytes of such a file
MOST_BYTES = 64 * 1024 * 1024  # bytes of a launcher file that a launcher downloads
_PURPOSE = b"svc-launcher update\n"  # so that no signature of another protocol is valid here
_NUMBER = r"(?:0|[1-9][0-9]{0,5})"
_VERSION = re.compile(
    rf"({_NUMBER}(?:\.{_NUMBER}){{0,3}})(?:\.?(dev|a|b|rc)([0-9]{{1,6}}))?(?:\+[a-z0-9.]{{1,32}})?"
)
_KINDS = ("dev", "a", "b", "rc", None)
_NAME = re.compile(r"svc-launcher[a-z-]{0,20}\.(?:pyz|zip)\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MODULES = "/app/python311.zip"  # the modules in the zip for Windows
_METADATA = re.compile(r"(?:.*/)?svc_launcher-([0-9.]+)\.dist-info/METADATA\Z")


class BadOffer(ValueError):
    """The error for an offer that is incomplete, or not signed by the host's certificate."""


@frozen
class LauncherOffer:
    """A launcher file with its version, as the owner of the host has signed it."""

    name: str
    version: str
    size: int
    sha256: str

    def statement(self) -> bytes:
        """Return the bytes that the owner signs."""
        return _PURPOSE + json.dump([self.name, self.version, self.size, self.sha256])


def order(version: str) -> tuple[tuple[int, ...], int, int]:
    """Return a sort key for a version; pre-releases are supported.

    A text that is not a version comes first in the order.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return (), 0, 0
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return (*numbers,), _KINDS.index(match[2]), int(match[3] or 0)


def is_version(text: str) -> bool:
    """Return whether a text is a version that can be compared with others."""
    return _VERSION.fullmatch(text) is not None


def is_released(version: str) -> bool:
    """Return whether a version is a release, which has neither a pre-release nor a local part."""
    match = _VERSION.fullmatch(version)
    return match is not None and match[1] == version


def is_newer(version: str, current: str) -> bool:
    """Return whether ``version`` is a released version after ``current``."""
    return is_released(version) and is_version(current) and order(version) > order(current)


def packed_version(file: Path) -> str:
    """Return the version of the launcher packed in ``file``, or raise BadOffer or OSError."""
    try:
        with zipfile.ZipFile(file) as packed:
            names = packed.namelist()
            for inner in (name for name in names if name.endswith(_MODULES)):
                with zipfile.ZipFile(packed.open(inner)) as modules:
                    names = [*names, *modules.namelist()]
    except zipfile.BadZipFile:
        names = []
    matches = [match for name in names if (match := _METADATA.match(name))]
    versions = {match[1] for match in matches if is_released(match[1])}
    if len(versions) != 1:
        raise BadOffer(f"{file.name} contains no released version of the launcher")
    return versions.pop()


def sign(offer: LauncherOffer, pair: Pair) -> bytes:
    """Return the content of the offer's file: its fields, the signature and the certificate.

    Raises BadOffer if the pair cannot be used.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key: Any = serialization.load_pem_private_key(pair.key, password=None)
    except (TypeError, ValueError):
        raise BadOffer("the gateway's certificate and key must be unencrypted PEM files") from None
    signature: bytes = key.sign(offer.statement(), *_scheme(key.public_key()))
    der = certificate.public_bytes(serialization.Encoding.DER)
    return json.dump(
        {
            "version": offer.version,
            "sha256": offer.sha256,
            "signature": base64.b64encode(signature).decode(),
            "certificate": base64.b64encode(der).decode(),
        }
    )


def verified(entry: Mapping[str, Any], fingerprints: Collection[str]) -> LauncherOffer:
    """Return the verified offer from ``entry``, or raise BadOffer.

    The signer's certificate must have one of the ``fingerprints``.
    """
    offer = LauncherOffer(
        _text(entry, "name", _NAME.match),
        _text(entry, "version", is_released),
        _size(entry),
        _text(entry, "sha256", _SHA256.match),
    )
    der, signature = _binary(entry, "certificate"), _binary(entry, "signature")
    if fingerprint_of_der(der) not in fingerprints:
        raise BadOffer("it is signed with another certificate")
    try:
        key: Any = x509.load_der_x509_certificate(der).public_key()
        key.verify(signature, offer.statement(), *_scheme(key))
    except (InvalidSignature, UnsupportedAlgorithm, ValueError):
        raise BadOffer("its signature is wrong") from None
    return offer


def _scheme(key: Any) -> tuple[Any, ...]:
    """Return the signature scheme for a public key, or raise BadOffer."""
    match key:
        case ec.EllipticCurvePublicKey():
            return (ec.ECDSA(hashes.SHA256()),)
        case rsa.RSAPublicKey():
            return padding.PKCS1v15(), hashes.SHA256()
        case ed25519.Ed25519PublicKey():
            return ()
    raise BadOffer("its certificate has a key of an unknown kind")


def _text(entry: Mapping[str, Any], name: str, is_good: Callable[[str], object]) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not is_good(value):
        raise BadOffer(f"its {name} is missing or invalid")
    return value


def _size(entry: Mapping[str, Any]) -> int:
    value = entry.get("size")
    if type(value) is not int or not 0 < value <= MOST_BYTES:
        raise BadOffer("its size is missing or invalid")
    return value


def _binary(entry: Mapping[str, Any], name: str) -> bytes:
    text = _text(entry, name, lambda value: len(value) <= LONGEST)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadOffer(f"its {name} is missing or invalid") from None
