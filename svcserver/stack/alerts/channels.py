"""Where alerts go: a file ``alert-NAME.env`` in the host's folder for each way."""

from __future__ import annotations

import re
from datetime import time
from pathlib import Path

from attrs import field, frozen

from svcserver.kernel.alert_channels import MOST, is_name
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    BadSetting,
    comma_list,
    env,
    load,
    off_unless_1,
    one_of,
    parse_env_file,
    secret,
)
from svcserver.stack.alerts.rules import Quiet, What

MAIL = "mail"
FORMS = ("json", "discord", "matrix", "ntfy", MAIL)
PATTERN = "alert-*.env"
_QUIET = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


def quiet_hours(text: str) -> Quiet:
    """Reads ``23:00-07:00``; raises ValueError with the cure in words."""
    found = _QUIET.match(text.strip())
    if found is None:
        raise ValueError("must be two times of day such as 23:00-07:00")
    first, second, third, fourth = map(int, found.groups())
    return Quiet(time(first, second), time(third, fourth))


BARE = (
    "its webhooks go without a signature: add a line SIGNING_SECRET=... with a long random word, "
    "by which the receiver can check them, or UNSIGNED=1 where none is wanted"
)


def kinds(text: str) -> tuple[What, ...]:
    """Words of ``What``, a comma between."""
    try:
        return tuple(What(one) for one in comma_list(text))
    except ValueError:
        words = ", ".join(one.value for one in What if one is not What.TEST)
        raise ValueError(f"must be some of {words}, a comma between") from None


@frozen
class Channel:
    """The lines of an ``alert-NAME.env``."""

    form: str = env("FORM", one_of(*FORMS))
    url: Secret = env("URL", secret)  # who knows a webhook's address can write there
    token: Secret | None = env("TOKEN", secret, default=None)
    signing_secret: Secret | None = env("SIGNING_SECRET", secret, default=None)
    unsigned: bool = env("UNSIGNED", off_unless_1, default=False)
    about: tuple[What, ...] = env("ABOUT", kinds, default=())
    quiet: Quiet | None = env("QUIET", quiet_hours, default=None)
    private: bool = env("PRIVATE", off_unless_1, default=False)
    room: str = env("ROOM", str.strip, default="")
    mail_from: str = env("MAIL_FROM", str.strip, default="")
    mail_to: tuple[str, ...] = env("MAIL_TO", comma_list, default=())
    mail_user: str = env("MAIL_USER", str.strip, default="")

    @property
    def hours(self) -> str:
        """Its quiet hours as ``QUIET`` names them; empty where there are none."""
        quiet = self.quiet
        return f"{quiet.begin:%H:%M}-{quiet.end:%H:%M}" if quiet is not None else ""

    @property
    def is_bare(self) -> bool:
        """Whether its webhooks go without a signature, and no owner has said so."""
        return self.form != MAIL and self.signing_secret is None and not self.unsigned

    def wants(self, what: What) -> bool:
        """Whether it is told of this kind; a test always."""
        return not self.about or what is What.TEST or what in self.about


@frozen
class Named:
    """A channel under the name of its file, by which owners test and remove it."""

    name: str
    channel: Channel = field(repr=False)


def path_of(folder: Path, name: str) -> Path:
    """Where a channel of that name is kept, whether or not there is one."""
    return folder / f"alert-{name}.env"


def read(path: Path) -> Channel:
    """The channel of a file; raises BadSetting."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as why:
        raise BadSetting(f"{path} cannot be read: {why}") from None
    try:
        return of_lines(text)
    except BadSetting as why:
        raise BadSetting(f"{path.name}: {why}") from None


def of_lines(text: str) -> Channel:
    """The channel of a file's text; raises BadSetting."""
    return load(Channel, parse_env_file(text))[0]


def all_of(folder: Path) -> tuple[list[Named], list[str]]:
    """The channels of a host, and what is wrong with its files: that of a channel, or of none.

    One that is to be signed and is not is told all the same: an update must silence nobody.
    """
    found, wrong = [], []
    for path in sorted(folder.glob(PATTERN))[:MOST]:
        name = path.stem.removeprefix("alert-")
        if not is_name(name):
            wrong.append(f"{path.name}: a channel's name has small letters, digits and -")
            continue
        try:
            found.append(Named(name, channel := read(path)))
            if channel.is_bare:
                wrong.append(f"{path.name}: {BARE}")
        except BadSetting as why:
            wrong.append(str(why))
    return found, wrong
