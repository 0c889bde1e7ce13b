"""The command ``svcctl keys``, which replaces the keys that sign tokens.

After a rotation, the old key signs no new tokens, but the metagame still accepts the tokens that
the old key has signed (AUTH_VERIFY_KEYS_B64). When the last of these tokens has expired, the old
key can be retired.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

import click
from attrs import field, frozen
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import Connection

from svcserver.ctl.database import transact
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Out, fail
from svcserver.kernel.envfile import change
from svcserver.kernel.settings import comma_list
from svcserver.metagame.access.keys import MAX_FURTHER, BadKey, key_id, load_public
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts.signing import signs_since

PRIVATE, PUBLIC = "AUTH_SIGNING_PRIVKEY_B64", "AUTH_SIGNING_PUBKEY_B64"
FURTHER = "AUTH_VERIFY_KEYS_B64"


@frozen
class SigningKeyPair:
    """A private and a public signing key, encoded as in metagame.env (base64)."""

    private: str = field(repr=False)
    public: str


def new_signing_keys() -> SigningKeyPair:
    """Return a new RSA-2048 key pair as base64 of PEM (PKCS#8 and SPKI)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SigningKeyPair(base64.b64encode(private).decode(), base64.b64encode(public).decode())


@click.group()
def keys() -> None:
    """Manage the keys that sign players' tokens."""


@host_command(keys, "list")
def list_keys(host: Host, out: Out) -> None:
    """Show the signing key and the old keys still accepted."""
    _show(out, _PublicKeys.from_env_file(host))


@host_command(keys, "rotate", reason=True)
def rotate(host: Host, out: Out, reason: str) -> None:
    """Sign with a new key; old tokens stay valid.

    Nobody is logged out. The metagame uses the new key after its next restart. One day later, run
    "svcctl keys retire".
    """
    with noted(host, "rotate keys", reason=reason) as trace:
        current = _PublicKeys.from_env_file(host)
        if len(current.further) >= MAX_FURTHER:
            fail(
                f"{FURTHER} already holds {MAX_FURTHER} old keys, which is the limit. To remove"
                " all old keys, run svcctl keys retire."
            )
        try:
            before = key_id(load_public(current.public))
        except BadKey as why:
            fail(
                f"the keys were not rotated, because {PUBLIC} is {why}. Write both keys of one "
                f"pair into {current.file}. To make a pair, run svcctl init in a new folder."
            )
        made = new_signing_keys()
        current = _PublicKeys(current.file, made.public, (current.public, *current.further))
        current.write({PRIVATE: made.private, PUBLIC: made.public})
        trace.before = {"signing": before}
        trace.after = {"signing": key_id(load_public(made.public))}
    _show(out, current)
    out.text(
        "Restart the metagame now: until then it signs with the old key.",
        "A day after the restart: svcctl keys retire",
    )


@host_command(keys, "retire", reason=True)
@click.option(
    "--now", "at_once", is_flag=True, help="Do not wait; players with old tokens are logged out."
)
def retire(host: Host, out: Out, at_once: bool, reason: str) -> None:
    """Remove the old keys, which sign no new tokens.

    Run this at least one day after the metagame was restarted with the new key. Before then, the
    command refuses, because old tokens may still be valid. Use --now if a key was leaked: all
    players must then log in again.
    """
    with noted(host, "retire keys", reason=reason) as trace:
        current = _PublicKeys.from_env_file(host)
        if not current.further:
            fail(f"There is no old key to retire: {FURTHER} is empty.")
        if not at_once:
            _check_expired(host, current)
        trace.before, trace.after = {"further": len(current.further)}, {"further": 0}
        current = _PublicKeys(current.file, current.public, ())
        current.write({})
    _show(out, current)
    out.text("Restart the metagame. It then refuses tokens of the old key.")


@frozen
class _PublicKeys:
    """The public keys in a metagame's env file."""

    file: Path
    public: str
    further: tuple[str, ...]

    @classmethod
    def from_env_file(cls, host: Host) -> _PublicKeys:
        file = host.folder / "metagame.env" if host.folder is not None else host.env_file
        if file is None:
            fail(
                "svcctl does not know which env file holds the keys."
                " Give --config DIR or --env-file FILE."
            )
        values = host.variables("metagame")
        return cls(file, values.get(PUBLIC, ""), comma_list(values.get(FURTHER, "")))

    def write(self, settings: dict[str, str]) -> None:
        """Write ``settings`` and the keys in ``further`` to the env file; raises Failed."""
        try:
            change(self.file, {**settings, FURTHER: ",".join(self.further)})
        except OSError as why:
            fail(f"{self.file} cannot be written: {why.strerror}")


def expired_at(tx: Connection, public: str) -> datetime | None:
    """Return the time at which the last token signed with an older key expires.

    Returns None while the metagame still signs with an older key. Raises BadKey if ``public``, the
    current public key, is invalid.
    """
    since = signs_since(tx, key_id(load_public(public)))
    return None if since is None else datetime.fromtimestamp(since + LIFETIME_S, UTC)


def _check_expired(host: Host, current: _PublicKeys) -> None:
    try:
        until = transact(host, lambda tx: expired_at(tx, current.public))
    except BadKey as why:
        fail(
            f"the old keys were not removed, because {PUBLIC} is {why}. With this setting, nobody "
            f"can log in. Correct {PUBLIC}, or use --now to remove the old keys without this check."
        )
    if until is None:
        fail(
            "the metagame still signs with the old key, because it was not restarted. "
            "Restart the metagame, and retire the old key a day later. To retire the old key at "
            "once, use --now"
        )
    if datetime.now(UTC) < until:
        fail(
            f"tokens signed with the old key are valid until {until:%Y-%m-%d %H:%M} UTC. "
            "Wait until then, or use --now. The option --now logs out all players whose tokens "
            "were signed with the old key"
        )


def _show(out: Out, current: _PublicKeys) -> None:
    verifying = [_name(key) for key in current.further]
    out.data({"signing": _name(current.public), "verifying": verifying})
    rows = [[_name(current.public), "signs"], *([key, "verifies"] for key in verifying)]
    out.table(["key", ""], rows)


def _name(public: str) -> str:
    try:
        return key_id(load_public(public))
    except BadKey as why:
        return f"({why})"
