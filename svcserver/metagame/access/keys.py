"""The RSA keys that sign and verify tokens, read from settings. Spec: 1 §2, §5."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from attrs import field, frozen
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jwt.algorithms import RSAAlgorithm
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.metagame.settings import Settings

log = Logger()
K = TypeVar("K")

MAX_FURTHER = 8  # a token without ``kid`` is tried with each
_RS256 = RSAAlgorithm(RSAAlgorithm.SHA256)


class BadKey(ValueError):
    """Not base64 of a PEM RSA key."""


class CannotSign(Exception):
    """There is no usable signing key."""


@frozen
class Keys:
    """The signing key, and the public keys that verify, by their id (``kid``)."""

    private: RSAPrivateKey | None = field(default=None, repr=False)
    kid: str = ""
    public: Mapping[str, RSAPublicKey] = field(factory=dict)
    _head: str = field(init=False, repr=False)  # of every token that is signed here

    @_head.default
    def _encoded_head(self) -> str:
        return _base64url(json.dump({"typ": "JWT", "alg": "RS256", "kid": self.kid}))

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """Those of the metagame's settings."""
        return cls.read(
            settings.signing_private_key, settings.signing_public_key, settings.verify_keys
        )

    @classmethod
    def read(cls, private: Secret, public: str, further: Iterable[str] = ()) -> Keys:
        """From base64 of PEM; an unusable key is logged and makes logins fail, not the start."""
        signing = _or_none(load_private, private.reveal(), "AUTH_SIGNING_PRIVKEY_B64")
        own = _or_none(load_public, public, "AUTH_SIGNING_PUBKEY_B64")
        known = {} if own is None else {key_id(own): own}
        for number, text in enumerate(further, start=1):
            if number > MAX_FURTHER:
                log.error(
                    "AUTH_VERIFY_KEYS_B64 has more than {most} keys; the rest is not used",
                    most=MAX_FURTHER,
                )
                break
            try:
                key = load_public(text)
            except BadKey:
                log.error(
                    "AUTH_VERIFY_KEYS_B64: key {number} is not base64 of a PEM public key;"
                    " tokens signed with it are refused",
                    number=number,
                )
            else:
                known.setdefault(key_id(key), key)
        return cls(signing, "" if signing is None else key_id(signing.public_key()), known)

    def sign(self, claims: bytes) -> str:
        """A token (JWS in its compact form, RFC 7515) of the claims, JSON; raises CannotSign.

        PyJWT's own encoder would write the head and check the key anew for each token, which is
        a fifteenth of what a log-in costs beside the signature.
        """
        if self.private is None:
            raise CannotSign("AUTH_SIGNING_PRIVKEY_B64 holds no usable key")
        signed = f"{self._head}.{_base64url(claims)}"
        return f"{signed}.{_base64url(_RS256.sign(signed.encode(), self.private))}"

    def for_token(self, kid: object) -> list[RSAPublicKey]:
        """The keys that a token with this ``kid`` may be signed with; all without one."""
        if kid is None:
            return list(self.public.values())
        found = self.public.get(kid) if isinstance(kid, str) else None
        return [] if found is None else [found]


def key_id(key: RSAPublicKey) -> str:
    """The key's thumbprint (RFC 7638), the same wherever the key is used."""
    numbers = key.public_numbers()
    members = {"e": _number(numbers.e), "kty": "RSA", "n": _number(numbers.n)}
    return _base64url(hashlib.sha256(json.dump(members)).digest())


@lru_cache(maxsize=1)
def load_private(text: str) -> RSAPrivateKey:
    """An RSA private key from base64 of PEM; raises BadKey.

    OpenSSL would try for a thirtieth of a second whether its primes are some; ``_is_sound`` needs
    a tenth of that.
    """

    def load(pem: bytes) -> object:
        return load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)

    key = _loaded(load, text)
    if not isinstance(key, RSAPrivateKey):
        raise BadKey("not an RSA key")
    if not _is_sound(key):
        raise BadKey("its numbers make no RSA key")
    return key


def _is_sound(key: RSAPrivateKey) -> bool:
    """Whether its numbers belong together, and what it signs is what its public key verifies.

    With a factor that is no prime the last would fail.
    """
    own = key.private_numbers()
    p, q, d, e = own.p, own.q, own.d, own.public_numbers.e
    if e < 3 or not all(one > 2 and one % 2 for one in (p, q, e)):
        return False
    if p * q != own.public_numbers.n or (d * e % (p - 1), d * e % (q - 1)) != (1, 1):
        return False
    if (own.dmp1, own.dmq1, own.iqmp * q % p) != (d % (p - 1), d % (q - 1), 1):
        return False
    try:
        return _RS256.verify(b"a word", key.public_key(), _RS256.sign(b"a word", key))
    except (ValueError, InternalError):  # too short to sign with, or OpenSSL cannot
        return False


def load_public(text: str) -> RSAPublicKey:
    """An RSA public key from base64 of PEM; raises BadKey."""
    key = _loaded(load_pem_public_key, text)
    if not isinstance(key, RSAPublicKey):
        raise BadKey("not an RSA key")
    return key


def _loaded(load: Callable[[bytes], object], text: str) -> object:
    try:
        return load(base64.b64decode(text, validate=True))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("not base64 of a PEM key") from None


def _or_none(load: Callable[[str], K], text: str, name: str) -> K | None:
    try:
        return load(text)
    except BadKey:
        log.error("{name} is not base64 of a PEM key; logins will fail", name=name)
        return None


def _number(value: int) -> str:
    return _base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
