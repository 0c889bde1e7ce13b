"""The settings of nightly backups, in ``stack.env``: schedule, retention and encryption."""

import re
from collections.abc import Mapping
from datetime import time
from pathlib import Path

from attrs import frozen

from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    comma_list,
    env,
    load,
    off_unless_1,
    on_unless_0,
    secret,
    whole,
    with_env_file,
)

STACK_FILE = "stack.env"  # in the host's folder
OFF = "off"
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


def time_of_day(text: str) -> time | None:
    """Parse a local time such as ``04:00``; return None for ``off``."""
    plain = text.strip().lower()
    if plain == OFF:
        return None
    match = _TIME.match(plain)
    if match is not None:
        return time(int(match[1]), int(match[2]))
    raise ValueError("must be off or a time of day, such as 04:00")


@frozen
class BackupSettings:
    """The settings of nightly backups, in ``stack.env``."""

    at: time | None = env("BACKUP_AT", time_of_day, default=time(4))
    folder: str = env("BACKUP_DIR", str.strip, default="backups")
    days: int = env("BACKUP_KEEP_DAYS", whole(1, 366), default=7)
    weeks: int = env("BACKUP_KEEP_WEEKS", whole(0, 260), default=4)
    months: int = env("BACKUP_KEEP_MONTHS", whole(0, 120), default=12)
    passphrase: Secret | None = env("BACKUP_PASSPHRASE", secret, default=None)
    recipients: tuple[str, ...] = env("BACKUP_RECIPIENTS", comma_list, default=())
    identity: str = env("BACKUP_IDENTITY", str.strip, default="")
    with_secrets: bool = env("BACKUP_SECRETS", off_unless_1, default=False)
    drill: bool = env("BACKUP_DRILL", on_unless_0, default=True)
    nice: int = env("BACKUP_NICE", whole(0, 19), default=15)


def read_settings(folder: Path, environ: Mapping[str, str]) -> BackupSettings:
    """Return a host's backup settings; ``environ`` takes precedence over ``stack.env``.

    Raises BadSetting.
    """
    file = folder / STACK_FILE
    return load(BackupSettings, with_env_file(str(file) if file.is_file() else None, environ))[0]
