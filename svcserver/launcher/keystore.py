"""Where account keys are kept: the system's key store, or a file only this user may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher.private_files import write_private

SERVICE = "svc-launcher"
IN_STORE = "Your key is kept in this system's key store."
IN_FILE = "This system has no key store, so your key is kept in a file that only you may read."


class NoKeyStore(Exception):
    """The system's key store cannot be used."""


class KeyStore(Protocol):
    """Keeps one secret for each name."""

    where: str  # a sentence for the player

    def get(self, name: str) -> Secret | None:
        """The secret kept under ``name``."""

    def put(self, name: str, secret: Secret) -> None:
        """Keep it, in place of what was there."""

    def drop(self, name: str) -> None:
        """Forget it; nothing happens where there is none."""


@define
class SystemKeys:
    """The key store of the system, through ``keyring``.

    Each name is asked for once: the store may be slow, and may ask the player.
    """

    backend: Any  # a keyring backend
    where: str = IN_STORE
    _known: dict[str, Secret | None] = field(factory=dict, init=False, repr=False)

    def get(self, name: str) -> Secret | None:
        if name not in self._known:
            found = self.backend.get_password(SERVICE, name)
            self._known[name] = Secret(found) if found else None
        return self._known[name]

    def put(self, name: str, secret: Secret) -> None:
        self.backend.set_password(SERVICE, name, secret.reveal())
        self._known[name] = secret

    def drop(self, name: str) -> None:
        if self.get(name) is not None:
            self.backend.delete_password(SERVICE, name)
            self._known[name] = None


@define
class FileKeys:
    """A JSON file of mode 0600."""

    path: Path
    where: str = IN_FILE
    _known: dict[str, str] | None = field(default=None, init=False, repr=False)

    def get(self, name: str) -> Secret | None:
        found = self._all().get(name)
        return Secret(found) if found else None

    def put(self, name: str, secret: Secret) -> None:
        self._write({**self._all(), name: secret.reveal()})

    def drop(self, name: str) -> None:
        known = self._all()
        if name in known:
            self._write({key: value for key, value in known.items() if key != name})

    def _all(self) -> dict[str, str]:
        if self._known is None:
            try:
                read = json.parse(self.path.read_bytes())
            except FileNotFoundError:
                read = {}
            pairs = read.items() if isinstance(read, dict) else ()
            self._known = {key: value for key, value in pairs if isinstance(value, str)}
        return self._known

    def _write(self, known: dict[str, str]) -> None:
        write_private(self.path, json.dump(known))
        self._known = known


def system_backend() -> Any:
    """The system's key store, tried once; raises NoKeyStore."""
    try:
        import keyring
        from keyring.backends import fail, null
        from keyring.errors import KeyringError
    except ImportError as why:
        raise NoKeyStore(str(why)) from why
    backend: Any = keyring.get_keyring()
    if isinstance(backend, fail.Keyring | null.Keyring) or backend.priority <= 0:
        raise NoKeyStore("none is installed")
    try:
        backend.set_password(SERVICE, "trial", "trial")
        if backend.get_password(SERVICE, "trial") != "trial":
            raise NoKeyStore("it does not give back what it was given")
        backend.delete_password(SERVICE, "trial")
    except (KeyringError, OSError, RuntimeError) as why:
        raise NoKeyStore(str(why)) from why
    return backend


def open_keys(folder: Path, *, use_file: bool = False) -> KeyStore:
    """The system's key store; where there is none, or ``use_file`` asks for it, a file."""
    if not use_file:
        try:
            return SystemKeys(system_backend())
        except NoKeyStore:
            pass  # the page says where keys are kept
    return FileKeys(folder / "keys.json")
