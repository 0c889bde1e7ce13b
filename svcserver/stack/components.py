"""The components of a host, in the order in which they start."""

import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from svcserver.stack.child import PREPARED

# the start order: each component needs only earlier ones; the stop order is the reverse
ORDER = ("metagame", "deploy", "content", "allowlist", "gateway", "relay")
RELAY = "relay"  # belongs on players' machines
# the variables that children inherit: an exported PORT must not reach all children
INHERITED = ("PATH", "HOME", "LANG", "TZ")
SCRATCH = "TMPDIR"  # restore tests of backups use this folder


def metagame_url(variables: Mapping[str, str]) -> str:
    """Return the metagame's local URL, from its variables."""
    host = variables.get("BIND_HOST") or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{variables.get('PORT') or '61000'}"


def dashboard(variables: Mapping[str, str]) -> str:
    """Return the URL of the owner's dashboard, from the metagame's variables."""
    return f"{metagame_url(variables)}/svc/dashboard"


class BadHost(Exception):
    """The error for a folder without a host; ``str()`` is the message to print."""


@frozen
class Component:
    """A component: its name, its settings file, and variables that override the file.

    ``plugin`` is the twistd plugin's name without ``svc-``. Several components can have the same
    plugin.
    """

    name: str
    env_file: Path
    plugin: str = ""
    extra: Mapping[str, str] = field(factory=dict)

    @property
    def kind(self) -> str:
        """The name of the component's twistd plugin, without ``svc-``."""
        return self.plugin or self.name

    @property
    def command(self) -> list[str]:
        return self._command()

    @property
    def waiting_command(self) -> list[str]:
        """The command line of a standby process, which prepares the component and then waits."""
        return self._command(PREPARED)

    def _command(self, *first: str) -> list[str]:
        options = ["--env-file", str(self.env_file)]
        return [
            sys.executable, "-m", "svcserver.stack.child", *first, f"svc-{self.kind}", *options
        ]  # fmt: skip


def components(folder: Path, *, with_relay: bool = False) -> list[Component]:
    """Return the components with a ``NAME.env`` file; raise BadHost if none is a metagame."""
    if not (folder / "metagame.env").is_file():
        raise BadHost(f"{folder} has no metagame.env. Create a host with svcctl init {folder}.")
    names = [name for name in ORDER if with_relay or name != RELAY]
    candidates = [Component(name, (folder / f"{name}.env").absolute()) for name in names]
    return [component for component in candidates if component.env_file.is_file()]


def environment(environ: Mapping[str, str], *more: str) -> dict[str, str]:
    """Return a child's environment: only the ``INHERITED`` variables and ``more``."""
    return {name: environ[name] for name in (*INHERITED, *more) if name in environ}
