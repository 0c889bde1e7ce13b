"""The components of a host, in the order in which they start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from svcserver.stack.child import PREPARED

ORDER = ("metagame", "deploy", "content", "allowlist", "gateway", "relay")
"""Each needs only those before it; stopped in the reverse order."""

RELAY = "relay"  # belongs on players' machines
KEPT = ("PATH", "HOME", "LANG", "TZ")
"""The variables that a child inherits: an exported PORT must not reach all of them."""

SCRATCH = "TMPDIR"  # where a drill restores to


def metagame_url(variables: Mapping[str, str]) -> str:
    """Where this machine reaches the metagame, from its variables."""
    host = variables.get("BIND_HOST") or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{variables.get('PORT') or '61000'}"


def dashboard(variables: Mapping[str, str]) -> str:
    """The address of the owner's page, from the metagame's variables."""
    return f"{metagame_url(variables)}/svc/dashboard"


class BadHost(Exception):
    """The folder holds no host; ``str()`` is the one line to print."""


@frozen
class Component:
    """A component: its name, the file with its settings, and those that are its own.

    ``plugin`` where it is one of several of a kind: the name that they share.
    """

    name: str
    env_file: Path
    plugin: str = ""
    extra: Mapping[str, str] = field(factory=dict)

    @property
    def kind(self) -> str:
        """What it is: its name, but for one of several."""
        return self.plugin or self.name

    @property
    def command(self) -> list[str]:
        """The command line of its process."""
        return self._command()

    @property
    def waiting_command(self) -> list[str]:
        """That of a process that waits until it is told to go on (``stack/child.py``)."""
        return self._command(PREPARED)

    def _command(self, *first: str) -> list[str]:
        options = ["--env-file", str(self.env_file)]
        return [
            sys.executable, "-m", "svcserver.stack.child", *first, f"svc-{self.kind}", *options
        ]  # fmt: skip


def components(folder: Path, *, with_relay: bool = False) -> list[Component]:
    """The components whose ``NAME.env`` is in ``folder``; raises BadHost without a metagame."""
    if not (folder / "metagame.env").is_file():
        raise BadHost(f"{folder} holds no metagame.env; make a host with svcctl init {folder}")
    wanted = [name for name in ORDER if with_relay or name != RELAY]
    found = [Component(name, (folder / f"{name}.env").absolute()) for name in wanted]
    return [one for one in found if one.env_file.is_file()]


def environment(environ: Mapping[str, str], *more: str) -> dict[str, str]:
    """The environment of a child: the ``KEPT`` variables only, and ``more`` for some."""
    return {name: environ[name] for name in (*KEPT, *more) if name in environ}
