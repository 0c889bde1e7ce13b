"""``svc-stack``: starts the others and decides nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.python import usage

from svcserver.stack.children import Children
from svcserver.stack.components import BadHost, Component, components, environment
from svcserver.web.serving import House, house

NAME = "svc-stack"


class Options(usage.Options):
    """The host's folder, and whether this machine also plays."""

    components: list[Component]
    optParameters = [  # noqa: RUF012 - usage.Options wants it so
        ["config", "c", ".", "Folder with metagame.env, deploy.env and so on (svcctl init)."]
    ]
    optFlags = [  # noqa: RUF012 - usage.Options wants it so
        ["with-relay", None, "Also start the relay, which belongs on players' machines."]
    ]
    longdesc = "The whole host from one folder. See docs/owners/install.md"

    def postOptions(self) -> None:
        """Find the components; a folder without a host ends the start with one line."""
        try:
            self.components = components(Path(self["config"]), with_relay=bool(self["with-relay"]))
        except BadHost as why:
            raise SystemExit(f"{NAME}: --config {why}") from None


def makeService(options: Options, reactor: Any = None) -> House:
    """The stack as a service."""
    if reactor is None:
        from twisted.internet import reactor  # late: importing it installs it
    top = house(reactor)
    folder = str(Path(options["config"]).absolute())
    children = Children(reactor, options.components, say, environment(os.environ), folder)
    children.setServiceParent(top)
    return top


def say(text: str) -> None:
    """A child's line, at once, so that an owner sees things in their order."""
    out = sys.__stdout__  # twistd puts its log in the place of sys.stdout
    if out is not None:
        out.write(text)
        out.flush()
