"""Where alerts go: a file ``alert-NAME.env`` in the host's folder for each way."""

from __future__ import annotations

import ipaddress
import re
from datetime import time
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

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
    printable,
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


MOST_URL = 2048  # characters
MOST_HOST = 253
MOST_MAIL = 320
_NO_URL = re.compile(r"""[\s"<>\\^`{|}]""")
_MAIL = re.compile(r"[!-~]+\Z")
_words = printable(4096)


def address(text: str) -> Secret:
    """Read a receiver's URL; raises ValueError, which repeats no part of it."""
    split(text.strip())
    return Secret(text.strip())


def split(url: str) -> SplitResult:
    """Split a URL whose host, port and path can be sent; raises ValueError.

    A host name may have any letters that IDNA knows; all else is ASCII, as HTTP has it.
    """
    if len(url) > MOST_URL:
        raise ValueError(f"must have at most {MOST_URL} characters")
    if not url.isprintable() or _NO_URL.search(url):
        raise ValueError("must have no spaces, control characters or quotes; write them as %XX")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("must be like https://HOST/PATH, with a port from 1 to 65535") from None
    if not parts.scheme or not host or port == 0:
        raise ValueError("must be like https://HOST/PATH, with a port from 1 to 65535")
    if not _is_host(host, is_literal="[" in parts.netloc):
        raise ValueError("must name a host: labels of 1 to 63 characters, a dot between")
    if not "".join(parts[2:]).isascii():
        raise ValueError("must have a path of ASCII characters; write others as %XX")
    return parts


def _is_host(host: str, *, is_literal: bool) -> bool:
    try:
        if is_literal:
            ipaddress.IPv6Address(host)
            return True
        return len(host) <= MOST_HOST and len(host.encode("idna")) <= MOST_HOST
    except ValueError:  # of IDNA, too
        return False


def token(text: str) -> Secret:
    """Read a word of printable ASCII, as headers and the login of mail have it."""
    return Secret(_words(text))


def mail_address(text: str) -> str:
    """Read ``you@example.org`` or ``You <you@example.org>``; raises ValueError."""
    found = text.strip()
    if len(found) > MOST_MAIL or not found.isprintable() or not _MAIL.match(parseaddr(found)[1]):
        raise ValueError("must be a mail address such as you@example.org")
    return found


def mail_addresses(text: str) -> tuple[str, ...]:
    """Read mail addresses, a comma between; raises ValueError."""
    return tuple(mail_address(one) for one in comma_list(text))


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
    url: Secret = env("URL", address)  # who knows a webhook's address can write there
    token: Secret | None = env("TOKEN", token, default=None)
    signing_secret: Secret | None = env("SIGNING_SECRET", secret, default=None)
    unsigned: bool = env("UNSIGNED", off_unless_1, default=False)
    about: tuple[What, ...] = env("ABOUT", kinds, default=())
    quiet: Quiet | None = env("QUIET", quiet_hours, default=None)
    private: bool = env("PRIVATE", off_unless_1, default=False)
    room: str = env("ROOM", _words, default="")
    mail_from: str = env("MAIL_FROM", mail_address, default="")
    mail_to: tuple[str, ...] = env("MAIL_TO", mail_addresses, default=())
    mail_user: str = env("MAIL_USER", _words, default="")

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
