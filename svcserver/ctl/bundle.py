"""The command ``svcctl bundle``, which writes a host's diagnostics to one file, without secrets.

A setting is shown if a component knows the setting's name, and if the setting cannot hold a secret.
In addition, the host's secrets are masked in every text.
"""

import base64
import io
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
from attrs import fields

from svcserver.ctl import journal
from svcserver.ctl.as_owner import owner_of
from svcserver.ctl.database import transact
from svcserver.ctl.doctor.command import as_data, examine
from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.doctor.reading import SHAPES
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Failed, Out, fail
from svcserver.ctl.stack_process import LOG
from svcserver.ctl.status_command import fetch_status
from svcserver.kernel import json
from svcserver.kernel.alert_channels import MOST
from svcserver.kernel.alert_settings import PATTERN, Channel
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.digits import whole_in
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.recent import RECENT
from svcserver.kernel.redaction import REDACTED, redact
from svcserver.kernel.settings import variables
from svcserver.metagame.owner.settings.store import SqlSettings
from svcserver.stack.service import StackSettings

LAST_BYTES = 512 * 1024  # bytes of the log
SHORTEST = 6  # characters; shorter secrets would match ordinary words
LINE_OF_A_KEY = 16  # characters; the last line of a key may be short
STACK = (*variables(StackSettings), *variables(BackupSettings))
_SECRET_NAME = re.compile(r"SECRET|PRIV|PASS|TOKEN|API_KEY|VERIFY_KEYS|ARGS|LAUNCHER|INVITE")


@host_command(None, "bundle")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--lines", type=click.IntRange(0, 10_000), default=2000, help="Number of log lines to include."
)
def bundle(host: Host, out: Out, file: Path | None, lines: int) -> None:
    """Collect diagnostics into one file without secrets.

    FILE is a tar.gz with versions, settings, logs, measurements and the output of "svcctl doctor".
    It contains names and addresses of players: send it only to people you trust.
    """
    folder = host.need_folder("*.env")
    target = file or Path(time.strftime("svc-bundle-%Y%m%d-%H%M%S.tar.gz"))
    known = sorted(secrets_of(host, folder), key=len, reverse=True)
    parts = {name: without(text, known) for name, text in contents(host, folder, lines)}
    try:
        write(target, parts)
    except OSError as why:
        fail(f"{target} cannot be written: {why.strerror}")
    out.data({"file": str(target.absolute()), "parts": sorted(parts)})
    out.text(f"{target.absolute()}: {', '.join(sorted(parts))}")
    out.text(
        "It holds no secrets, but names and addresses of players: send it only to people you trust."
    )


def contents(host: Host, folder: Path, lines: int) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each part; if a part cannot be read, its text says why."""
    yield (
        "doctor.json",
        dump_result(lambda: [as_data(finding) for finding in examine(host, folder)]),
    )
    yield "versions.json", dump_result(versions)
    for name in (*SHAPES, "stack", *alert_files(folder)):
        if (folder / f"{name}.env").is_file():
            yield f"settings/{name}.env", "\n".join(map(visible, shown(host, name))) + "\n"
    yield (
        "settings/page.json",
        dump_result(lambda: transact(host, lambda tx: SqlSettings(tx).all())),
    )
    yield "log.txt", last_lines(log_files(host, folder), lines)
    yield "status.json", dump_result(lambda: fetch_status(host))
    yield "figures.json", dump_result(lambda: owner_of(host).find("DashboardFigures", range="week"))
    for name in (*SHAPES, "stack"):
        yield from figures(host, folder, name)


def dump_result(ask: Callable[[], object]) -> str:
    """Return the result of ``ask`` as JSON, or the reason for its failure."""
    try:
        return json.dump_ascii(ask()) + "\n"
    except Failed as why:
        return json.dump_ascii({"failed": why.message}) + "\n"


def versions() -> dict[str, object]:
    """Return the versions of Python, the operating system and every Python package."""
    packages = {str(package.metadata["Name"]): package.version for package in distributions()}
    return {
        "python": sys.version,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": dict(sorted(packages.items())),
    }


def shown(host: Host, name: str) -> Iterator[str]:
    """Yield an env file's settings; mask the values of secrets and of unknown settings."""
    known = (
        set(STACK)
        if name == "stack"
        else {variable for shape in shapes_of(name) for variable in variables(shape)}
    )
    try:
        values = host.variables(name)
    except Failed as why:
        yield f"# {why.message}"
        return
    for variable, text in values.items():
        hidden = variable not in known or is_secret(name, variable)
        yield f"{variable}={REDACTED if hidden and text else without_user(text)}"


def shapes_of(name: str) -> tuple[type[Any], ...]:
    """Return the settings classes of a component or an alert channel; empty for other names."""
    return (Channel,) if name.startswith("alert-") else tuple(SHAPES.get(name, ()))


def alert_files(folder: Path) -> list[str]:
    """Return the names of the alert channels' env files, without ``.env``."""
    return sorted(path.stem for path in folder.glob(PATTERN))[:MOST]


def is_secret(name: str, variable: str) -> bool:
    """Return whether the setting can hold a secret, judging by its type or name."""
    types = {
        field.metadata["name"]: str(field.type)
        for shape in shapes_of(name)
        for field in fields(shape)
    }
    return "Secret" in types.get(variable, "") or bool(_SECRET_NAME.search(variable))


def secrets_of(host: Host, folder: Path) -> set[str]:
    """Return the host's secrets, with their parts and their encoded forms."""
    secrets = {host.owner_key() or ""}
    for path in folder.glob("*key*.pem"):
        try:
            secrets |= lines_of(path.read_bytes())
        except OSError:  # svcctl doctor reports the file
            continue
    for name in (*SHAPES, "stack", *alert_files(folder)):
        if not (folder / f"{name}.env").is_file():
            continue
        try:
            values = host.variables(name)
        except Failed:  # svcctl doctor reports this file, too
            continue
        for variable, text in values.items():
            if is_secret(name, variable):
                secrets |= {text.strip(), *text.split(), *text.split(","), *decoded(text)}
            elif "://" in text and (password := password_of(text)):
                secrets |= {password, unquote(password)}
    secrets |= {json.dump_ascii(secret)[1:-1] for secret in secrets}  # in the form used in JSON
    return {secret for secret in secrets if len(secret) >= SHORTEST}


def decoded(text: str) -> set[str]:
    """Return the lines of a base64-encoded private key; empty for any other text."""
    try:
        return lines_of(base64.b64decode(text, validate=True))
    except ValueError:
        return set()


def lines_of(pem: bytes) -> set[str]:
    """Return the lines of a PEM private key; empty for any other text."""
    if b"PRIVATE KEY-----" not in pem:
        return set()
    lines = pem.decode("ascii", "replace").splitlines()
    return {line for line in lines if len(line) >= LINE_OF_A_KEY and not line.startswith("-----")}


def password_of(url: str) -> str:
    """Return the password in a URL, still percent-encoded; empty if the URL has no password."""
    user = url.partition("://")[2].rpartition("@")[0]
    return user.partition(":")[2]


def without_user(url: str) -> str:
    """Return the URL with its user name and password masked."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{REDACTED}@{rest.rpartition('@')[2]}" if "@" in rest else url


def without(text: str, known: list[str]) -> str:
    """Return ``text`` without the ``known`` secrets and other strings that look like secrets."""
    for secret in known:
        text = text.replace(secret, REDACTED)
    return redact(text)


def log_files(host: Host, folder: Path) -> list[Path]:
    """Return the log files of svc-stack, oldest first."""
    try:
        stack = host.variables("stack") if (folder / "stack.env").is_file() else {}
    except Failed:  # svcctl doctor reports the file
        stack = {}
    log = folder / stack.get("DATA_DIR", "") / RECENT
    return [log.with_name(f"{RECENT}.1"), log] if log.is_file() else [folder / LOG]


def last_lines(paths: Sequence[Path], count: int) -> str:
    """Return the last lines of the log files, or the reason why there are none."""
    lines: list[str] = []
    for path in paths:
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LAST_BYTES))
                text = file.read(LAST_BYTES).decode("utf-8", "replace")
        except OSError as why:
            if path == paths[-1]:
                return journal.last_lines(count) or f"{path.name}: {why.strerror}\n"
            continue  # the log has not been rotated yet
        lines += text.removesuffix("\n").split("\n")[1 if size > LAST_BYTES else 0 :]
    return "".join(f"{visible(line, LAST_BYTES)}\n" for line in lines[max(0, len(lines) - count) :])


def figures(host: Host, folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the component's metrics, if they are on, as (file name, text)."""
    if not (folder / f"{name}.env").is_file():
        return
    try:
        port = whole_in(host.variables(name).get("METRICS_PORT", ""), 5)
    except Failed:  # svcctl doctor reports the file
        return
    if port is not None and 0 < port < 65_536:
        status, body = Machine().answer("127.0.0.1", port, "/metrics", {})
        lines = body.decode("utf-8", "replace").split("\n") if status == 200 else ["none", ""]
        yield f"figures/{name}.txt", "\n".join(map(visible, lines))


def write(target: Path, parts: dict[str, str]) -> None:
    """Write the bundle with mode 0600; raises OSError if the file exists."""
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in parts.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"svc-bundle/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(data))
