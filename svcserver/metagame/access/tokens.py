"""Player tokens: RS256 JWTs, signed at log-in, verified once and cached. Spec: 1 §2, §5."""

from collections.abc import Callable
from typing import Any

import jwt
from attrs import define, field, frozen

from svcserver.kernel.buggify import buggify
from svcserver.kernel.cache import BoundedCache
from svcserver.kernel.ids import AccountId
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.keys import Keys

ISSUER = "svc-metagame"
LIFETIME_S = 86_400
MAX_KNOWN = 16_384
MAX_ACCOUNT_ID = 64  # characters, as in the database
MAX_TOKEN = 4_096  # characters; real tokens have about 650


class InvalidToken(Exception):
    """The error for a token that another server signed or that is no longer valid."""


@frozen
class Claims:
    """The claims that the metagame reads from a token; times in epoch seconds."""

    account_id: AccountId
    issued_at: float
    expires: float


@define
class Tokens:
    """Signs and verifies tokens; no other code verifies them.

    ``wall_clock`` gives epoch seconds. The keys are parsed once, because PyJWT would parse the
    PEM again on every call.
    """

    wall_clock: Callable[[], float]
    keys: Keys = field(factory=Keys)
    epochs: Epochs = field(factory=Epochs)
    _known: BoundedCache[str, Claims] = field(
        factory=lambda: BoundedCache(MAX_KNOWN), init=False, repr=False
    )

    def sign(self, account_id: AccountId, asked_at: float | None = None) -> str:
        """Return a new token for the account; raises CannotSign.

        ``asked_at`` is the time at which the credentials were checked (epoch seconds); None means
        now. If another process ends the account's sessions after that time, the token is invalid.
        """
        issued_at = self._issued_at(account_id, self.wall_clock() if asked_at is None else asked_at)
        self.epochs.signed(account_id, issued_at)
        claims = {
            "userId": account_id,
            "iat": issued_at,
            "exp": issued_at + LIFETIME_S,
            "iss": ISSUER,
            "aud": ISSUER,
        }
        return self.keys.sign(claims)

    def _issued_at(self, account_id: AccountId, at: float) -> int:
        """Return ``at``, or the account's epoch if that is later.

        A token that is issued before the epoch would be refused.
        """
        return max(int(at), self.epochs.not_before(account_id))

    def verify(self, token: str) -> AccountId:
        """Return the account id in the token; raises InvalidToken."""
        claims = self.claims(token)
        self.check(claims)
        return claims.account_id

    def claims(self, token: str) -> Claims:
        """Return the token's claims after checking its signature; raises InvalidToken.

        A caller that stores the claims must call ``check`` before each use.
        """
        known = self._known.get(token)
        if known is None:
            known = self._decode(token)
            if not buggify("tokens: not kept in the cache"):
                self._known.put(token, known)
        return known

    def check(self, claims: Claims) -> None:
        """Raise InvalidToken if the token has expired or the account's sessions were ended."""
        if not claims.expires > self.wall_clock():
            raise InvalidToken
        if not claims.issued_at >= self.epochs.not_before(claims.account_id):
            raise InvalidToken

    def _decode(self, token: str) -> Claims:
        if len(token) > MAX_TOKEN:
            raise InvalidToken
        try:
            claims = self._checked(token, jwt.get_unverified_header(token).get("kid"))
        except (jwt.PyJWTError, ValueError, RecursionError) as why:
            raise InvalidToken from why
        expires, account_id = _seconds(claims["exp"]), claims.get("userId")
        if not isinstance(account_id, str) or not is_usable(account_id):
            raise InvalidToken
        if (
            not expires > self.wall_clock()
            or not _seconds(claims.get("nbf", 0)) <= self.wall_clock()
        ):
            raise InvalidToken
        return Claims(account_id, _seconds(claims.get("iat", 0)), expires)

    def _checked(self, token: str, kid: object) -> dict[str, Any]:
        """Return the claims; raises an error unless one of this server's keys signed the token."""
        for key in self.keys.for_token(kid):
            try:
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=["RS256"],
                    issuer=ISSUER,
                    audience=ISSUER,
                    # checked here, because PyJWT cannot use the injected clock
                    options={
                        "require": ["exp"],
                        "verify_exp": False,
                        "verify_iat": False,
                        "verify_nbf": False,
                    },
                )
            except jwt.InvalidSignatureError:
                continue
            return claims
        raise InvalidToken


def _seconds(claim: object) -> float:
    if isinstance(claim, bool) or not isinstance(claim, int | float):
        raise InvalidToken
    return claim


def is_usable(account_id: str) -> bool:
    """Return whether an unverified id has the form of an account id."""
    return 1 <= len(account_id) <= MAX_ACCOUNT_ID and "\0" not in account_id
