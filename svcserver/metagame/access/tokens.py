"""Player tokens: RS256 JWTs, signed at login, verified once and remembered. Spec: 1 §2, §5."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jwt
from attrs import define, field
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import Secret

log = Logger()

ISSUER = "svc-metagame"
LIFETIME_S = 86_400
MAX_KNOWN = 16_384
MAX_ACCOUNT_ID = 64  # characters, as in the database
MAX_TOKEN = 4_096  # characters; ours have about 600
_SIGNER = jwt.PyJWS()  # ``jwt.encode`` is the same with the standard library's slower JSON


class InvalidToken(Exception):
    """Not a token of ours, or no longer."""


class CannotSign(Exception):
    """There is no usable signing key."""


@define
class Tokens:
    """Signs and verifies. ``now`` gives epoch seconds.

    The keys are parsed once: PyJWT would parse the PEM anew on every call.
    """

    now: Callable[[], float]
    _private: Any = field(default=None, repr=False)
    _public: Any = None
    _known: OrderedDict[str, tuple[float, AccountId]] = field(
        factory=OrderedDict, init=False, repr=False
    )

    @classmethod
    def from_settings(cls, private: Secret, public: str, now: Callable[[], float]) -> Tokens:
        """From base64 of PEM; a broken key is logged and makes logins fail, not the start."""
        return cls(now, _load(load_private, private.reveal()), _load(load_public, public))

    def sign(self, account_id: AccountId) -> str:
        """A fresh token for the account; raises CannotSign."""
        if self._private is None:
            raise CannotSign("AUTH_SIGNING_PRIVKEY_B64 holds no usable key")
        now = int(self.now())
        claims = {
            "userId": account_id,
            "iat": now,
            "exp": now + LIFETIME_S,
            "iss": ISSUER,
            "aud": ISSUER,
        }
        return _SIGNER.encode(json.dump(claims), self._private, algorithm="RS256")

    def verify(self, token: str) -> AccountId:
        """The account the token speaks for; raises InvalidToken.

        Nothing revokes a token, so the only thing that can go stale is ``exp``, which
        is looked at on every call.
        """
        known = self._known.get(token)
        if known is not None:
            if known[0] > self.now():
                return known[1]
            del self._known[token]
        expires, account_id = self._decode(token)
        self._known[token] = (expires, account_id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return account_id

    def _decode(self, token: str) -> tuple[float, AccountId]:
        if self._public is None or len(token) > MAX_TOKEN:
            raise InvalidToken
        try:
            claims = jwt.decode(
                token,
                self._public,
                algorithms=["RS256"],
                issuer=ISSUER,
                audience=ISSUER,
                # our clock is injected; PyJWT's is not
                options={
                    "require": ["exp"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as why:
            raise InvalidToken from why
        expires, account_id = claims.get("exp"), claims.get("userId")
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            raise InvalidToken
        if not isinstance(account_id, str) or not is_usable(account_id):
            raise InvalidToken
        if not expires > self.now():
            raise InvalidToken
        return float(expires), account_id


def is_usable(account_id: str) -> bool:
    """Whether an id that nobody checked can stand for an account at all."""
    return 1 <= len(account_id) <= MAX_ACCOUNT_ID and "\0" not in account_id


def load_private(pem: bytes) -> Any:
    """An RSA private key from PEM."""
    return load_pem_private_key(pem, password=None)


def load_public(pem: bytes) -> Any:
    """An RSA public key from PEM."""
    return load_pem_public_key(pem)


def _load(load: Callable[[bytes], Any], text: str) -> Any:
    try:
        return load(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error, TypeError):
        which = "PRIVKEY" if load is load_private else "PUBKEY"
        log.error(
            "AUTH_SIGNING_{which}_B64 is not base64 of a PEM key; logins will fail", which=which
        )
        return None
