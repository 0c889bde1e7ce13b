"""Fresh signing keys in the form the metagame's settings want."""

from __future__ import annotations

import base64

from attrs import field, frozen
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@frozen
class SigningKeys:
    """AUTH_SIGNING_PRIVKEY_B64 and AUTH_SIGNING_PUBKEY_B64."""

    private: str = field(repr=False)
    public: str


def new_signing_keys() -> SigningKeys:
    """An RSA-2048 pair: base64 of PEM PKCS#8 and of PEM SPKI."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKeys(base64.b64encode(private).decode(), base64.b64encode(public).decode())
