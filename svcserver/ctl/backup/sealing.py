"""The encryption of a backup as an age file, which the ``age`` program can decrypt.

With public keys (``age1...``) the file is streamed. With a passphrase, the library reads the whole
file into memory, and needs about three times the file's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from svcserver.kernel.secrets import Secret

HEAD = b"age-encryption.org/v1"
SCRYPT = b"\n-> scrypt "  # begins the header line of a file with a passphrase
END_OF_HEAD = b"\n--- "
MOST_HEAD = 64 * 1024  # bytes of the header, which the library reads into memory
SUFFIX = ".age"
TOO_SLOW = "Excessive work"  # the beginning of the library's error message
TRIES = 10
MOST = 2 << 30  # bytes that a passphrase may encrypt


class CannotSeal(Exception):
    """The error for a failed encryption or decryption; ``str()`` is the message."""


@frozen
class BackupLock:
    """The encryption of a backup: public keys, a passphrase, or none."""

    recipients: Sequence[str] = ()
    passphrase: Secret | None = None
    identity: Path | None = field(default=None)
    # a private key that exists only in memory
    _once: Any = field(default=None, repr=False, alias="once")

    def __bool__(self) -> bool:
        return bool(self.recipients) or self.passphrase is not None

    def proving(self) -> BackupLock:
        """Return a ``BackupLock`` that can also decrypt the files that it encrypts.

        The owner's private key may be on another machine. So files are encrypted for one more key,
        which exists only in the returned object. The restore test uses this key.
        """
        if not self.recipients or self.identity is not None:
            return self
        return evolve(self, once=_age().x25519.Identity.generate())

    def close(self, source: Path, target: Path) -> None:
        """Encrypt ``source`` into ``target``; raises CannotSeal or OSError."""
        age = _age()
        try:
            if self.recipients:
                keys = [age.x25519.Recipient.from_str(key) for key in self.recipients]
                if self._once is not None:
                    keys.append(self._once.to_public())
                with source.open("rb") as clear, target.open("wb") as closed:
                    age.encrypt_io(clear, closed, keys)
                return
            if self.passphrase is None:
                raise CannotSeal("there is no key and no passphrase to encrypt with")
            if source.stat().st_size > MOST:
                text = "the backup is too large for BACKUP_PASSPHRASE; set BACKUP_RECIPIENTS"
                raise CannotSeal(text)
            target.write_bytes(age.passphrase.encrypt(source.read_bytes(), self._words))
        except age.RecipientError:
            text = "BACKUP_RECIPIENTS has no public key of age; make a key with age-keygen"
            raise CannotSeal(text) from None
        except age.EncryptError as why:
            raise CannotSeal(f"the backup cannot be encrypted: {why}") from None

    def open(self, source: Path, target: Path) -> None:
        """Decrypt ``source`` into ``target``; raises CannotSeal if that is impossible."""
        age = _age()
        with source.open("rb") as file:
            head = file.read(MOST_HEAD)
        if END_OF_HEAD not in head:
            raise CannotSeal("the backup is damaged: the header has no end")
        by_passphrase = SCRYPT in head[:200]
        if by_passphrase and source.stat().st_size > MOST + (MOST >> 8):
            raise CannotSeal("the file is too large for a backup with a passphrase")
        try:
            if by_passphrase:
                if self.passphrase is None:
                    raise CannotSeal("the backup needs a passphrase: set BACKUP_PASSPHRASE")
                target.write_bytes(self._opened(source.read_bytes()))
                return
            if self.identity is None and self._once is None:
                text = "the backup needs the private key of BACKUP_RECIPIENTS: give --identity FILE"
                raise CannotSeal(text)
            with source.open("rb") as closed, target.open("wb") as clear:
                age.decrypt_io(closed, clear, self._keys())
        except age.DecryptError:
            raise CannotSeal("the backup is damaged, or encrypted for another key") from None
        except OSError as why:
            if why.errno is not None:  # the library's own errors have no errno
                raise
            raise CannotSeal("the backup is damaged, or encrypted for another key") from None

    def _opened(self, closed: bytes) -> bytes:
        """Return the contents of a file that was encrypted with a passphrase.

        Raises CannotSeal or the library's DecryptError. On a busy machine, the library may refuse
        a file, because it overestimates the time for the decryption. So this method tries
        repeatedly.
        """
        age = _age()
        for _ in range(TRIES):
            try:
                clear: bytes = age.passphrase.decrypt(closed, self._words)
                return clear
            except age.DecryptError as why:
                if TOO_SLOW not in str(why):
                    raise
        raise CannotSeal(
            "this machine is too slow or too busy to check the passphrase; try again when the "
            "machine is idle, or open the backup with age on a faster machine"
        )

    def _keys(self) -> list[Any]:
        return [self._once] if self.identity is None else identities(self.identity)

    @property
    def _words(self) -> str:
        return self.passphrase.reveal() if self.passphrase is not None else ""


def is_closed(path: Path) -> bool:
    """Return whether the file is encrypted with ``age``; raises OSError."""
    with path.open("rb") as file:
        return file.read(len(HEAD)) == HEAD


def identities(path: Path) -> list[Any]:
    """Return the private keys in a file written by ``age-keygen``; raises CannotSeal."""
    age = _age()
    try:
        lines = path.read_text(encoding="utf-8").split()
        keys = [
            age.x25519.Identity.from_str(word)
            for word in lines
            if word.startswith("AGE-SECRET-KEY-")
        ]
    except (OSError, UnicodeDecodeError, age.IdentityError):
        keys = []
    if not keys:
        raise CannotSeal(
            f"{path} holds no private key of age. Private keys begin with AGE-SECRET-KEY-."
        )
    return keys


def _age() -> Any:
    import pyrage  # imported late, because only encryption needs this library

    return pyrage
