"""The RSA keys that sign and verify tokens, read from settings. Spec: 1 §2, §5."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import jwt
from attrs import field, frozen
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.metagame.settings import MetagameSettings

log = Logger()
K = TypeVar("K")

MAX_FURTHER = 8  # a token without ``kid`` is checked against each key


class BadKey(ValueError):
    """The error for a text that is not an RSA key in base64-encoded PEM."""


class CannotSign(Exception):
    """The error for a missing or unusable signing key."""


@frozen
class Keys:
    """The key that signs tokens, and a dict from key id (``kid``) to public key."""

    private: RSAPrivateKey | None = field(default=None, repr=False)
    kid: str = ""
    public: Mapping[str, RSAPublicKey] = field(factory=dict)

    @classmethod
    def from_settings(cls, settings: MetagameSettings) -> Keys:
        """Return the keys from the metagame's settings."""
        return cls.parse_pem(
            settings.signing_private_key, settings.signing_public_key, settings.verify_keys
        )

    @classmethod
    def parse_pem(cls, private: Secret, public: str, further: Iterable[str] = ()) -> Keys:
        """Read keys from base64-encoded PEM; log an error for each unusable key."""
        signing = _or_none(load_private, private.reveal(), "AUTH_SIGNING_PRIVKEY_B64")
        own = _or_none(load_public, public, "AUTH_SIGNING_PUBKEY_B64")
        known = {} if own is None else {key_id(own): own}
        for number, text in enumerate(further, start=1):
            if number > MAX_FURTHER:
                log.error(
                    "AUTH_VERIFY_KEYS_B64 has more than {most} keys. Only the first {most} keys "
                    "are used",
                    most=MAX_FURTHER,
                )
                break
            try:
                key = load_public(text)
            except BadKey:
                log.error(
                    "key {number} in AUTH_VERIFY_KEYS_B64 must be an RSA key in PEM form, encoded "
                    "as base64. Tokens that were signed with key {number} are refused",
                    number=number,
                )
            else:
                known.setdefault(key_id(key), key)
        return cls(signing, "" if signing is None else key_id(signing.public_key()), known)

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a signed token with these claims; raises CannotSign."""
        if self.private is None:
            raise CannotSign("AUTH_SIGNING_PRIVKEY_B64 holds no usable key")
        return jwt.encode(claims, self.private, algorithm="RS256", headers={"kid": self.kid})

    def for_token(self, kid: object) -> list[RSAPublicKey]:
        """Return the keys with which to verify a token that has this ``kid`` (None: all keys)."""
        if kid is None:
            return list(self.public.values())
        key = self.public.get(kid) if isinstance(kid, str) else None
        return [] if key is None else [key]


def key_id(key: RSAPublicKey) -> str:
    """Return the key's id (``kid``): its thumbprint by RFC 7638."""
    numbers = key.public_numbers()
    members = {"e": _number(numbers.e), "kty": "RSA", "n": _number(numbers.n)}
    return _base64url(hashlib.sha256(json.dump(members)).digest())


@lru_cache(maxsize=1)
def load_private(text: str) -> RSAPrivateKey:
    """Return the RSA private key from base64-encoded PEM, checked by OpenSSL; raises BadKey."""
    key = _loaded(lambda pem: load_pem_private_key(pem, password=None), text)
    if not isinstance(key, RSAPrivateKey):
        raise BadKey("not an RSA key")
    return key


def load_public(text: str) -> RSAPublicKey:
    """Return the RSA public key from base64-encoded PEM; raises BadKey."""
    key = _loaded(load_pem_public_key, text)
    if not isinstance(key, RSAPublicKey):
        raise BadKey("not an RSA key")
    return key


def _loaded(load: Callable[[bytes], object], text: str) -> object:
    try:
        return load(base64.b64decode(text, validate=True))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("not an RSA key in PEM form, encoded as base64") from None


def _or_none(load: Callable[[str], K], text: str, name: str) -> K | None:
    try:
        return load(text)
    except BadKey:
        text = "{name} must be an RSA key in PEM form, encoded as base64; log-ins will fail"
        log.error(text, name=name)
        return None


def _number(value: int) -> str:
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
