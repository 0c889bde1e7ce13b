"""``svcctl alerts``: manage and test the channels that alerts are sent to."""

import socket
import time
from pathlib import Path
from typing import Any

import click

from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Out, fail, warn
from svcserver.kernel.alert_channels import is_name
from svcserver.kernel.alert_settings import (
    FORMS,
    MAIL,
    AlertKind,
    Channel,
    differences,
    parse_channel,
    path_of,
    read_channel,
    read_channels,
    write_channel_text,
)
from svcserver.kernel.reactor_run import run_in_reactor
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.settings import BadSetting, parse_env_file
from svcserver.kernel.system import token_hex
from svcserver.stack.alerts.delivering import AlertClient, NotDelivered
from svcserver.stack.alerts.rules import Alert

MOST_BYTES = 64 * 1024  # of a channel's lines
SECRET_LINES = {"TOKEN", "SIGNING_SECRET"}
OPEN_URLS = {MAIL, "matrix"}  # forms whose URL is only a server's address; the secret is in TOKEN
NAME_RULES = (
    "Use only lowercase letters, digits and -. The name must begin with a letter, and may have at"
    " most 32 characters."
)


@click.group()
def alerts() -> None:
    """Manage alert channels."""


@host_command(alerts, "list")
def list_channels(host: Host, out: Out) -> None:
    """List the channels with type, topics and quiet hours."""
    channels, wrong = read_channels(host.need_folder())
    rows = []
    for entry in channels:
        channel = entry.channel
        about = ",".join(kind.value for kind in channel.about) or "everything"
        signed = channel.signing_secret is not None
        rows.append([entry.name, channel.form, about, channel.hours, "signed" if signed else ""])
        out.data(
            {
                "name": entry.name,
                "form": channel.form,
                "about": [kind.value for kind in channel.about],
                "quiet": channel.hours or None,
                "signed": signed,
                "private": channel.private,
            }
        )
    out.table(["channel", "form", "about", "quiet", ""], rows)
    if not channels:
        out.text("No alert channel yet. Add one with svcctl alerts add to be notified of faults.")
    if wrong:
        fail("; ".join(fault.text for fault in wrong))


@host_command(alerts, "add", reason=True)
@click.argument("name")
@click.option("--form", type=click.Choice(FORMS), required=True)
@click.option(
    "--from", "file", metavar="FILE", help="File with KEY=value lines (URL, TOKEN); - for stdin."
)
@click.option("--url", help="A URL without secrets, for --form mail or matrix.")
@click.option(
    "--set",
    "more",
    multiple=True,
    metavar="KEY=VALUE",
    help="Another setting, like QUIET=23:00-07:00.",
)
def add(
    host: Host,
    out: Out,
    name: str,
    form: str,
    file: str | None,
    url: str | None,
    more: tuple[str, ...],
    reason: str,
) -> None:
    """Add a channel: write its settings to alert-NAME.env.

    The page "Alerts" of the manual lists the settings. Pass secrets (a webhook's URL, a TOKEN)
    with --from FILE, because every user of the machine can see the command line.
    """
    from svcserver.ctl.noting import noted  # imports the database

    folder = host.need_folder()
    with noted(host, "add alerts", name[:40], reason=reason) as trace:
        lines = [*_lines(file), f"FORM={form}", *([f"URL={url}"] if url else []), *more]
        names = parse_env_file("\n".join(lines)).keys()
        if "URL" not in names:
            fail(
                "The URL is missing. Write a line URL=... in a file, and pass --from FILE."
                ' Without a file, pass "--from -" and type the line.'
            )
        is_signed = form != MAIL and names.isdisjoint({"SIGNING_SECRET", "UNSIGNED"})
        ours = [f"SIGNING_SECRET={hex_token(64)}"] if is_signed else []
        text = "\n".join([*lines, *ours, ""])
        _write(folder, name, text)
        trace.after = differences({}, parse_env_file(text))[1]
    _warn(path_of(folder, name), form, url, more)
    out.data({"name": name, "file": str(path_of(folder, name))})
    out.text(f"made {path_of(folder, name)}; try it with svcctl alerts test {name}")
    if is_signed:
        out.text("Each webhook is signed with the SIGNING_SECRET in that file.")


def _lines(file: str | None) -> list[str]:
    """Return the lines of a file, or of the standard input for ``-``; raises Failed."""
    if file is None:
        return []
    try:
        with click.open_file(file, "rb") as source:
            raw: bytes = source.read(MOST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except OSError as why:
        fail(f"{file} cannot be read: {why.strerror}")
    except UnicodeDecodeError:
        fail(f"{file} is not UTF-8 text. Save the file as UTF-8.")
    if len(raw) > MOST_BYTES:
        fail(
            f"{file} has more than {MOST_BYTES} bytes. Give a smaller file that holds"
            " only the KEY=value lines of one channel."
        )
    return text.splitlines()


def _warn(file: Path, form: str, url: str | None, more: tuple[str, ...]) -> None:
    """Warn about secrets that were passed on the command line."""
    settings = parse_env_file("\n".join(more))
    address = settings.get("URL", url or "")
    exposed = sorted(SECRET_LINES & settings.keys())
    if address and (form not in OPEN_URLS or "@" in address):
        exposed.insert(0, "the URL")
    if exposed:
        names = " and ".join(exposed)
        warn(
            f"the command line contained {names}. Every user of this machine can see the command"
            f" line, and the shell keeps it in its history. Change {names} at the service that"
            f" receives the alerts, and in {file}; next time, use --from FILE."
        )


def _write(folder: Path, name: str, text: str) -> None:
    """Write a channel's env file; raises Failed."""
    if not is_name(name):
        fail(f"{name[:40]!r} is not a channel name. {NAME_RULES}")
    try:
        parse_channel(text)
        text.encode()  # fails if an argument on the command line was not UTF-8
        write_channel_text(path_of(folder, name), text, new=True)
    except BadSetting as why:
        fail(str(why))
    except UnicodeEncodeError:
        fail("An argument is not UTF-8 text. Type the command again.")
    except FileExistsError:
        fail(f"{path_of(folder, name)} already exists. Edit or delete the file.")
    except OSError as why:
        fail(f"{path_of(folder, name)} cannot be written: {why.strerror}")


@host_command(alerts, "test", reason=True)
@click.argument("name")
def test(host: Host, out: Out, name: str, reason: str) -> None:
    """Send a test alert to a channel, even in quiet hours."""
    from svcserver.ctl.noting import (
        noted,
    )  # imports the database, which svcctl alerts needs only here

    alert = Alert(AlertKind.TEST, "svcctl's", "This channel works.", time.time())
    began = time.monotonic()
    with noted(host, "test alerts", name[:40], reason=reason):
        channel, sender = _channel(host, name), _name_of(host)
        try:
            deliver(channel, alert, sender)
        except NotDelivered as why:
            fail(f"{name}: {why}")
    seconds = round(time.monotonic() - began, 3)
    out.data({"name": name, "delivered": True, "seconds": seconds})
    out.text(f"{name}: delivered in {seconds} s")


def _channel(host: Host, name: str) -> Channel:
    if not is_name(name):
        fail(f"{name[:40]!r} is not a channel name. {NAME_RULES}")
    try:
        return read_channel(path_of(host.need_folder(), name))
    except BadSetting as why:
        fail(str(why))


def _name_of(host: Host) -> str:
    return host.variables("metagame").get("SERVER_NAME") or socket.gethostname()


def deliver(channel: Channel, alert: Alert, sender: str) -> None:
    """Send ``alert`` to ``channel`` immediately; raises NotDelivered if that fails."""

    async def send(reactor: Any) -> None:
        await AlertClient.with_resolver(reactor, sender).deliver(channel, alert, token_hex(16))

    run_in_reactor(send)
