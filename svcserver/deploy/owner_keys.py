"""The host's signing key, by which the deploy server checks the machine's tickets.

It stands in ``metagame.env`` beside ``deploy.env``. Game servers inherit the deploy server's
environment, so the key must not be there.
"""

from __future__ import annotations

from pathlib import Path

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, with_env_file

log = Logger()
FILE = "metagame.env"


@define
class OwnerKeys:
    """The signing keys whose tickets count: the present one and the one before it.

    The file is read again when it has changed. A metagame signs with the key before it until
    it restarts after ``svcctl keys rotate``.
    """

    file: Path
    given: Secret | None = None  # in our own settings, which win
    _keys: list[str] = field(factory=list, init=False, repr=False)  # the newest first
    _version: tuple[int, int] | None = field(default=None, init=False)

    @classmethod
    def beside(cls, env_file: str | None, given: Secret | None = None) -> OwnerKeys:
        """Those of the host that ``env_file`` belongs to; without one, of this folder."""
        folder = Path() if env_file is None else Path(env_file).absolute().parent
        return cls((folder / FILE).absolute(), given)

    def __call__(self) -> list[str]:
        """The keys that count now; none where no key is found."""
        if self.given is not None and self.given.reveal().strip():
            return [self.given.reveal()]
        try:
            state = self.file.stat()
            version = state.st_mtime_ns, state.st_ino
            if version != self._version:
                key = with_env_file(str(self.file), {}).get(SIGNING_KEY, "").strip()
                self._version = version
                if key and key not in self._keys[:1]:
                    self._keys = [key, *self._keys][:2]
        except (OSError, BadSetting) as why:
            log.debug("{file} cannot be read: {why}", file=str(self.file), why=str(why))
        return self._keys

    def warning(self) -> str:
        """What is missing for tickets to count, and the cure; empty where nothing is."""
        if self():
            return ""
        return (
            f"no {SIGNING_KEY} in {self.file}: console, start, stop, restart and keys of launches "
            "are refused; start this service with --env-file in the host's folder"
        )
