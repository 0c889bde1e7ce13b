"""The storage of account keys: the system's key store, or a file only this user can read."""

from pathlib import Path
from typing import Any, Protocol

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher.private_files import write_private

log = Logger()

SERVICE = "svc-launcher"
IN_STORE = "Your key is stored in this system's key store."
IN_FILE = "This system has no key store, so your key is stored in a file that only you may read."
AS_ASKED = "Your key is stored in a file that only you may read."
IN_BOTH = (
    "This system's key store refused your key, so it is stored in a file that only you may read."
)


class NoKeyStore(Exception):
    """The error when the system's key store cannot be used."""


class KeyStore(Protocol):
    """A storage in which each secret has a name."""

    where: str  # tells the player where keys are stored

    def get(self, name: str) -> Secret | None:
        """Return the secret saved under ``name``, or None."""

    def put(self, name: str, secret: Secret) -> None:
        """Save or replace a secret."""

    def drop(self, name: str) -> None:
        """Delete a secret; does nothing if there is none."""


@define
class FileKeys:
    """A key store in a JSON file with mode 0600."""

    path: Path
    where: str = IN_FILE
    _known: dict[str, str] | None = field(default=None, init=False, repr=False)

    def get(self, name: str) -> Secret | None:
        key = self._all().get(name)
        return Secret(key) if key else None

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


@define
class SystemKeys:
    """The system's key store, through ``keyring``, and a file for the keys that this store refuses.

    A key that the store refuses is saved in the file, because a lost key means a lost account. Keys
    are looked up in the file, then in the store. Each name is looked up only once, because the
    store may be slow and may prompt the player.
    """

    backend: Any  # a keyring backend
    spare: FileKeys
    where: str = IN_STORE
    _known: dict[str, Secret | None] = field(factory=dict, init=False, repr=False)

    def get(self, name: str) -> Secret | None:
        if name not in self._known:
            self._known[name] = self.spare.get(name) or self._stored(name)
        return self._known[name]

    def _stored(self, name: str) -> Secret | None:
        try:
            password = self.backend.get_password(SERVICE, name)
        except Exception as error:  # each store has its own errors
            log.warn("the key store did not answer: {why}", why=type(error).__name__)
            return None
        return Secret(password) if password else None

    def put(self, name: str, secret: Secret) -> None:
        try:
            self.backend.set_password(SERVICE, name, secret.reveal())
        except Exception as error:
            text = "the key store refused a key, so the key is stored in a file: {why}"
            log.warn(text, why=type(error).__name__)
            self.spare.put(name, secret)
            self.where = IN_BOTH
        else:
            self.spare.drop(name)
        self._known[name] = secret

    def drop(self, name: str) -> None:
        if self.get(name) is None:
            return
        self.spare.drop(name)
        self._known[name] = None
        try:
            if self.backend.get_password(SERVICE, name) is not None:
                self.backend.delete_password(SERVICE, name)
        except Exception as error:
            text = "an unused key cannot be deleted from the key store: {why}"
            log.warn(text, why=type(error).__name__)


def system_backend() -> Any:
    """Return the system's key store after testing it, or raise NoKeyStore."""
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError as error:
        raise NoKeyStore(str(error)) from error
    backend: Any = keyring.get_keyring()
    if isinstance(backend, fail.Keyring | null.Keyring) or backend.priority <= 0:
        raise NoKeyStore("none is installed")
    try:
        backend.set_password(SERVICE, "trial", "trial")
        if backend.get_password(SERVICE, "trial") != "trial":
            raise NoKeyStore("it does not return what was saved")
        backend.delete_password(SERVICE, "trial")
    except NoKeyStore:
        raise
    except Exception as error:  # locked, refused, no service: each store has its own errors
        raise NoKeyStore(type(error).__name__) from error
    return backend


def open_keys(folder: Path, *, use_file: bool = False) -> KeyStore:
    """Return the system's key store, or a key store in a file.

    The file is used if ``use_file`` is set, or if the system's key store cannot be used.
    """
    file = FileKeys(folder / "keys.json")
    if use_file:
        file.where = AS_ASKED
        return file
    try:
        return SystemKeys(system_backend(), file)
    except NoKeyStore:
        return file  # the page shows where keys are stored
