"""The host that a command works on: a folder of env files, one env file, or the environment.

``--config DIR`` reads only ``DIR/NAME.env``, as ``svc-stack`` does. ``--env-file FILE`` reads the
settings of one component, and environment variables override them. Without either option, the host
is the working directory if that contains ``metagame.env``; otherwise the settings come from the
environment.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from attrs import field, frozen

from svcserver.ctl.output import Failed, HalfDone, Out, fail
from svcserver.edge.certificate import CERT_FILE, KEY_FILE
from svcserver.kernel.folder_owner import ForeignFolder, act_as_owner
from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.settings import BadSetting, load, parse_env_file, with_env_file
from svcserver.stack.components import dashboard

S = TypeVar("S")
OWNER_KEY = "owner.key"
NO_HOST = "give the folder with the host's settings, or make a host with svcctl init DIR"


@frozen
class Host:
    """A host, and the source of its settings."""

    folder: Path | None = None
    env_file: Path | None = None
    environ: Mapping[str, str] = field(factory=dict, repr=False)

    def variables(self, component: str) -> dict[str, str]:
        """Return the settings of one component as the component sees them; raises Failed."""
        if self.folder is None:
            try:
                return with_env_file(
                    str(self.env_file) if self.env_file else None, dict(self.environ)
                )
            except BadSetting as why:
                fail(str(why))
        path = self.folder / f"{component}.env"
        try:
            return parse_env_file(path.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as why:
            fail(unreadable(path, why))

    def settings(self, component: str, shape: type[S]) -> S:
        """Return a component's settings as an instance of ``shape``; raises Failed."""
        try:
            return load(shape, self.variables(component))[0]
        except BadSetting as why:
            fail(f"{self.name_of(component)}: {why}")

    def name_of(self, component: str) -> str:
        """Return a name for the source of the settings, for messages."""
        if self.folder is not None:
            return str(self.folder / f"{component}.env")
        return str(self.env_file) if self.env_file is not None else "the environment"

    def path(self, text: str) -> Path:
        """Return the path in a setting.

        A relative path starts in the working folder of the services.
        """
        return Path(text) if self.folder is None else self.folder / text

    def gateway_pair(self) -> tuple[Path, Path] | None:
        """Return the files of the gateway's certificate and key; None without a gateway."""
        if self.folder is None or not (self.folder / "gateway.env").is_file():
            return None
        values = self.variables("gateway")
        names = values.get("GATEWAY_CERT") or CERT_FILE, values.get("GATEWAY_KEY") or KEY_FILE
        return self.path(names[0]), self.path(names[1])

    def need_folder(self, settings: str = "") -> Path:
        """Return the host's folder; raises Failed if no file matches the glob ``settings``."""
        if self.folder is None:
            fail("This command needs the host's folder. Give --config DIR.")
        if settings and not any(self.folder.glob(settings)):
            fail(
                f"{self.folder} is not the folder of a host: it contains no file "
                f"{settings}. Create a host with svcctl init DIR."
            )
        return self.folder

    @property
    def home(self) -> Path | None:
        """Return the folder that contains the settings; None if they are not in a file.

        If root starts a command, the command runs as the owner of this folder.
        """
        return self.folder or (self.env_file.parent if self.env_file is not None else None)

    def dashboard(self) -> str:
        """Return the dashboard's URL for a browser on this machine."""
        return dashboard(self.variables("metagame"))

    def owner_key(self) -> str | None:
        """Return the owner's account key from ``owner.key``; None if there is no such file."""
        if self.folder is None:
            return None
        path = self.folder / OWNER_KEY
        try:
            return path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as why:
            fail(unreadable(path, why))


def unreadable(path: Path, why: OSError | UnicodeDecodeError) -> str:
    """Return a one-line message: the file, why it cannot be read, and the fix."""
    if isinstance(why, UnicodeDecodeError):
        return f"{path} cannot be read: it is not UTF-8 text; save it as UTF-8"
    if isinstance(why, FileNotFoundError | NotADirectoryError):
        return f"{path} cannot be read: {why.strerror}; {NO_HOST}"
    if isinstance(why, PermissionError):
        return f"{path} cannot be read: {why.strerror}; run this as the owner of the file"
    return f"{path} cannot be read: {why.strerror}; check the file and its disk"


def find(config: str | None, env_file: str | None) -> Host:
    """Return the host that the command-line options select."""
    if config is not None and env_file is not None:
        fail("Give --config or --env-file, not both.")
    if env_file is not None:
        return Host(None, Path(env_file), os.environ)
    if config is not None:
        if not Path(config).is_dir():
            fail(f"there is no folder {config}; make a host with svcctl init DIR")
        return Host(Path(config))
    here = Path()
    return Host(here) if (here / "metagame.env").is_file() else Host(None, None, os.environ)


@contextmanager
def as_owner_of(folder: Path | None) -> Iterator[None]:
    """If root runs this program, switch to the user that owns ``folder``; raises Failed.

    If that user has no access to a file, such as one in root's home folder, the error names the
    file and the reason.
    """
    try:
        actor = act_as_owner(folder) if folder is not None else None
    except ForeignFolder as why:
        fail(str(why))
    elsewhere = f"{actor}: choose a path that this user may read and write"
    try:
        yield
    except HalfDone:
        raise
    except Failed as why:
        if actor is None or os.strerror(errno.EACCES) not in why.message:
            raise
        fail(f"{why.message}; {elsewhere}")
    except PermissionError as why:
        if actor is None or why.filename is None:
            raise
        fail(f"{why.filename}: {why.strerror}; {elsewhere}")


def as_owner_of_its_folder(command: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command run as the owner of the host's folder if root starts it."""

    @functools.wraps(command)
    def run(**arguments: Any) -> Any:
        with as_owner_of(Path(arguments.get("folder") or arguments["config"])):
            return command(**arguments)

    return run


def _plain(_: click.Context, option: click.Parameter, text: str) -> str:
    """Return the option's value; raises Failed if it is not plain text."""
    if not is_plain(text):
        fail(f"--{option.name} has {NOT_PLAIN}; write the text in one plain line")
    return text


REASON = click.Option(
    ["--reason"], default="", callback=_plain, help="The reason, for the audit log."
)
AS_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON.")
HOST_OPTIONS = (
    click.Option(["--config"], metavar="DIR", help="The host's folder, made by svcctl init."),
    click.Option(
        ["--env-file"],
        metavar="FILE",
        help="Instead of --config: read the settings of one service from its env file.",
    ),
    AS_JSON,
)


def host_command(
    group: click.Group | None, name: str, *, reason: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function with the parameters ``host`` and ``out`` into a command on a host."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(config: str | None, env_file: str | None, as_json: bool, **rest: Any) -> Any:
            host = find(config, env_file)
            with as_owner_of(host.home):
                return function(host=host, out=Out(as_json), **rest)

        command: click.Command = (click if group is None else group).command(name, **options)(run)
        command.params += [*([REASON] if reason else []), *HOST_OPTIONS]
        return command

    return decorate
