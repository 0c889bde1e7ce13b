"""The command ``svcctl openapi``, which prints the OpenAPI document of a host's metagame."""

import time
from typing import Any

from attrs import evolve
from twisted.internet.task import Clock

from svcserver.board.memory import MemoryBoard
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Out
from svcserver.metagame.composition import Metagame
from svcserver.metagame.owner.build import Build
from svcserver.metagame.owner.dashboard.document import describe
from svcserver.metagame.settings import MetagameSettings


@host_command(None, "openapi")
def openapi(host: Host, out: Out) -> None:
    """Print the OpenAPI document of this host.

    Only routes that the host's settings enable are listed.
    """
    settings = host.settings("metagame", MetagameSettings)
    settings = evolve(settings, log_bodies=False)  # opens no file
    nothing: Any = None  # routes are only listed here, never called
    game = Metagame(settings, nothing, MemoryBoard(time.time), Clock(), time.time, nothing, nothing)
    document = describe(game.front_door().rows, Build.from_settings(settings).version)
    Out(as_json=True).data(document)
