"""The settings of alert channels: a file ``alert-NAME.env`` for each channel of a host."""

import errno
import ipaddress
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import time
from email.utils import parseaddr
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from attrs import field, frozen

from svcserver.kernel.alert_channels import MOST, is_name
from svcserver.kernel.disk import sync_folder
from svcserver.kernel.foreign_text import visible
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
from svcserver.kernel.system import epoch, token_hex


class AlertKind(StrEnum):
    """The kinds of alerts."""

    DOWN = "down"
    LOOP = "loop"
    DISK = "disk"
    CERTIFICATE = "certificate"
    BACKUP = "backup"
    ERRORS = "errors"
    ATTACK = "attack"
    NODE = "node"
    AGENT = "agent"
    MEMORY = "memory"
    TEST = "test"


@frozen
class QuietHours:
    """A daily period without alerts, in local time; it may span midnight."""

    begin: time
    end: time

    def include(self, now: time) -> bool:
        """Return whether the time ``now`` is in the quiet hours."""
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


MAIL = "mail"
FORMS = ("json", "discord", "slack", "matrix", "ntfy", MAIL)
PATTERN = "alert-*.env"
_QUIET = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


def quiet_hours(text: str) -> QuietHours:
    """Parse a period like ``23:00-07:00``.

    Raises ValueError, whose text says how to fix the value.
    """
    match = _QUIET.match(text.strip())
    if match is None:
        raise ValueError("must be a range of times of day, such as 23:00-07:00")
    first, second, third, fourth = map(int, match.groups())
    return QuietHours(time(first, second), time(third, fourth))


MOST_URL = 2048  # characters
MOST_HOST = 253
MOST_MAIL = 320
NO_URL = "must be like https://HOST/PATH or https://HOST:PORT/PATH, with a PORT from 1 to 65535"
_NOT_IN_URL = re.compile(r"""[\s"<>\\^`{|}]""")
_MAIL = re.compile(r"[!-~]+\Z")
_words = printable(4096)


def address(text: str) -> Secret:
    """Parse a webhook URL; if it is invalid, the ValueError's text contains no part of it."""
    split(text.strip())
    return Secret(text.strip())


def split(url: str) -> SplitResult:
    """Split a URL into its parts; raises ValueError if a part is invalid.

    The host name may have any letters that IDNA allows; everything else must be ASCII, as HTTP
    requires.
    """
    if len(url) > MOST_URL:
        raise ValueError(f"must have at most {MOST_URL} characters")
    if not url.isprintable() or _NOT_IN_URL.search(url):
        raise ValueError(
            "must have no spaces, control characters or quotes; write these characters as %XX"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(NO_URL) from None
    if not parts.scheme or not host or port == 0:
        raise ValueError(NO_URL)
    if not _is_host(host, is_literal="[" in parts.netloc):
        raise ValueError(
            f"must have an IP address or a host name of at most {MOST_HOST} characters, with dots "
            "between parts of 1 to 63 characters"
        )
    if not "".join(parts[2:]).isascii():
        raise ValueError(
            "must have only ASCII characters after the host; write other characters as %XX"
        )
    return parts


def _is_host(host: str, *, is_literal: bool) -> bool:
    try:
        if is_literal:
            ipaddress.IPv6Address(host)
            return True
        return len(host) <= MOST_HOST and len(host.encode("idna")) <= MOST_HOST
    except ValueError:  # includes IDNA errors
        return False


def token(text: str) -> Secret:
    """Parse a word of printable ASCII, as used in HTTP headers and mail log-ins."""
    return Secret(_words(text))


def mail_address(text: str) -> str:
    """Parse ``you@example.org`` or ``You <you@example.org>``; raises ValueError if invalid."""
    plain = text.strip()
    if len(plain) > MOST_MAIL or not plain.isprintable() or not _MAIL.match(parseaddr(plain)[1]):
        raise ValueError("must be a mail address such as you@example.org")
    return plain


def mail_addresses(text: str) -> tuple[str, ...]:
    """Parse mail addresses separated by commas, or raise ValueError."""
    return tuple(map(mail_address, comma_list(text)))


UNSIGNED = (
    "the channel's webhooks have no signature. Add SIGNING_SECRET= with a long random word. "
    "To send webhooks without a signature, add UNSIGNED=1."
)


def kinds(text: str) -> tuple[AlertKind, ...]:
    """Parse alert kinds (values of ``AlertKind``) separated by commas, or raise ValueError."""
    try:
        return tuple(map(AlertKind, comma_list(text)))
    except ValueError:
        words = ", ".join(kind.value for kind in AlertKind if kind is not AlertKind.TEST)
        raise ValueError(f"must be one or more of {words}, separated by commas") from None


@frozen
class Channel:
    """The settings of an alert channel: the lines of its file ``alert-NAME.env``."""

    form: str = env("FORM", one_of(*FORMS))
    url: Secret = env("URL", address)  # a webhook URL is a secret: whoever has it can post
    token: Secret | None = env("TOKEN", token, default=None)
    signing_secret: Secret | None = env("SIGNING_SECRET", secret, default=None)
    unsigned: bool = env("UNSIGNED", off_unless_1, default=False)
    about: tuple[AlertKind, ...] = env("ABOUT", kinds, default=())
    quiet: QuietHours | None = env("QUIET", quiet_hours, default=None)
    private: bool = env("PRIVATE", off_unless_1, default=False)
    room: str = env("ROOM", _words, default="")
    mail_from: str = env("MAIL_FROM", mail_address, default="")
    mail_to: tuple[str, ...] = env("MAIL_TO", mail_addresses, default=())
    mail_user: str = env("MAIL_USER", _words, default="")

    @property
    def hours(self) -> str:
        """The quiet hours as written in ``QUIET``; empty if the channel has no quiet hours."""
        quiet = self.quiet
        return f"{quiet.begin:%H:%M}-{quiet.end:%H:%M}" if quiet is not None else ""

    @property
    def lacks_signature(self) -> bool:
        """True if the channel's webhooks are unsigned although ``UNSIGNED`` is not set."""
        return self.form != MAIL and self.signing_secret is None and not self.unsigned

    def wants(self, what: AlertKind) -> bool:
        """Return whether the channel gets alerts of this kind; it always gets test alerts."""
        return not self.about or what is AlertKind.TEST or what in self.about


@frozen
class NamedChannel:
    """A channel with its name; owners use the name to test or remove the channel."""

    name: str
    channel: Channel = field(repr=False)


def path_of(folder: Path, name: str) -> Path:
    """Return the file path for a channel name, whether or not the file exists."""
    return folder / f"alert-{name}.env"


def read_channel(path: Path) -> Channel:
    """Return the channel in a file, or raise BadSetting."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} cannot be read: {error}") from None
    try:
        return parse_channel(text)
    except BadSetting as error:
        raise BadSetting(f"{path.name}: {error}") from None


def parse_channel(text: str) -> Channel:
    """Parse the text of a channel's file, or raise BadSetting."""
    return load(Channel, parse_env_file(text))[0]


@frozen
class ChannelFault:
    """A fault in a channel's file; if ``usable`` is true, the channel is used nevertheless."""

    name: str  # of the channel, safe to show
    text: str
    usable: bool = False


def name_of(path: Path) -> str:
    """Return NAME of a file ``alert-NAME.env``, made safe to show; NAME may be invalid."""
    return visible(path.stem.removeprefix("alert-"))


def read_channels(folder: Path) -> tuple[list[NamedChannel], list[ChannelFault]]:
    """Return the channels of a host, and the faults in its channel files.

    A webhook channel without a signing secret counts as a fault. Such a channel is still used,
    because earlier versions wrote channel files without a signing secret.
    """
    channels, faults = [], []
    for path in sorted(folder.glob(PATTERN))[:MOST]:
        name, file = name_of(path), visible(path.name)
        if not is_name(name):
            text = f"{file}: a channel's name may only have small letters, digits and -"
            faults.append(ChannelFault(name, text))
            continue
        try:
            channels.append(NamedChannel(name, channel := read_channel(path)))
            if channel.lacks_signature:
                faults.append(ChannelFault(name, f"{file}: {UNSIGNED}", usable=True))
        except BadSetting as error:
            faults.append(ChannelFault(name, str(error)))
    return channels, faults


SECRETS = ("URL", "TOKEN", "SIGNING_SECRET")
OPEN = (
    "FORM",
    "ABOUT",
    "QUIET",
    "PRIVATE",
    "UNSIGNED",
    "ROOM",
    "MAIL_FROM",
    "MAIL_TO",
    "MAIL_USER",
)


def differences(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the lines in which two channel files differ, without secrets, for the audit log."""
    was, now = dict[str, str](), dict[str, str]()
    for name in (*OPEN, *SECRETS):
        old, new = before.get(name, ""), after.get(name, "")
        if old == new:
            continue
        is_secret = name in SECRETS
        if old:
            was[name.lower()] = "hidden" if is_secret else old
        if new:
            now[name.lower()] = ("replaced" if old else "set") if is_secret else new
    return was, now


def unfit(channel: Channel) -> str | None:
    """Return the reason why nothing can be sent through the channel, or None."""
    scheme = split(channel.url.reveal()).scheme
    schemes = ("smtp", "smtps") if channel.form == MAIL else ("https", "http")
    if scheme not in schemes:
        return f"URL must begin with {' or '.join(f'{name}://' for name in schemes)}"
    if scheme == "http" and not channel.private:
        return "http:// needs PRIVATE=1. Use https:// instead."
    if channel.form == MAIL and not (channel.mail_from and channel.mail_to):
        return "mail needs MAIL_FROM and MAIL_TO"
    return None


def write_channel(path: Path, values: Mapping[str, str], *, new: bool) -> None:
    """Write a channel's file; raises BadSetting or OSError.

    If ``new`` is true, raises FileExistsError if the file exists already.
    """
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    if parse_env_file(text) != values:  # such as a value in quotes
        raise BadSetting("A value begins or ends with a quote or a space. Remove it.")
    write_channel_text(path, text, new=new)


def write_channel_text(path: Path, text: str, *, new: bool) -> None:
    """Write the whole file atomically; raises OSError.

    If ``new`` is true, raises FileExistsError if the file exists already.
    """
    for old in path.parent.glob(f".{path.name}.*.new"):  # of writers that were killed
        with suppress(FileNotFoundError):
            if abs(epoch() - old.stat().st_mtime) > LEFT_OVER_S:
                old.unlink()
    fresh = path.with_name(f".{path.name}.{token_hex(8)}.new")  # svcctl may write, too
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _place(fresh, path, new=new)
    finally:
        fresh.unlink(missing_ok=True)
    sync_folder(path.parent)


LEFT_OVER_S = 60.0  # no writer takes that long
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without hard links


def _place(fresh: Path, path: Path, *, new: bool) -> None:
    if new:
        try:
            path.hardlink_to(fresh)  # unlike a renaming, this never replaces a file
            return
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    fresh.replace(path)
