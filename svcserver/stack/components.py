"""Which components a host has, in the order in which they start."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

ORDER = ("metagame", "deploy", "content", "allowlist", "gateway", "relay")
"""Each needs only what stands before it; stopped in the other order."""

RELAY = "relay"  # belongs on players' machines
KEPT = ("PATH", "HOME", "LANG", "TZ")
"""All that a child inherits: one exported PORT must not hit three of them."""


class BadHost(Exception):
    """The folder holds no host; ``str()`` is the one line to print."""


@frozen
class Component:
    """One child: its name and the file with its settings."""

    name: str
    env_file: Path

    @property
    def command(self) -> list[str]:
        """What is run; the child ends itself when the stack is killed."""
        plugin = f"svc-{self.name}"
        options = ["--env-file", str(self.env_file)]
        return [sys.executable, "-m", "svcserver.stack.child", plugin, *options]


def components(folder: Path, *, with_relay: bool = False) -> list[Component]:
    """The components whose ``NAME.env`` is in ``folder``; raises BadHost without a metagame."""
    if not (folder / "metagame.env").is_file():
        raise BadHost(f"{folder} holds no metagame.env; make a host with svcctl init {folder}")
    wanted = [name for name in ORDER if with_relay or name != RELAY]
    found = [Component(name, (folder / f"{name}.env").absolute()) for name in wanted]
    return [one for one in found if one.env_file.is_file()]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a child sees of the stack's own environment."""
    return {name: environ[name] for name in KEPT if name in environ}
