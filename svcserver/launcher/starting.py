"""Starting a host's game: the command, what stands in front of it, and the way to the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from svcserver.kernel.secrets import Secret
from svcserver.launcher import accounts, words
from svcserver.launcher.asking import HostClient
from svcserver.launcher.command import DOCUMENTED, USUAL_PROGRAM, BadCommand, Start
from svcserver.launcher.files_job import FilesJob
from svcserver.launcher.host_list import HostRecord
from svcserver.launcher.playing import Game, NoProgram
from svcserver.launcher.runners import Runner, chosen
from svcserver.launcher.stages import Host, Inputs, Stage

CHAT_PORT = 61099  # of a private host, which has no gateway


class CannotPlay(Exception):
    """The game cannot be started now; the text is for the player."""


class Around(Protocol):
    """What this needs of the launcher."""

    @property
    def runner(self) -> Runner | None: ...

    def in_thread(self, work: Callable[..., Any], *given: Any) -> Deferred[Any]: ...

    def open_way(self, record: HostRecord) -> tuple[str, str]: ...

    def close_way(self, record: HostRecord) -> Any: ...


class Player(Protocol):
    """What this needs of a membership."""

    record: HostRecord
    host: Host
    inputs: Inputs
    client: HostClient
    files: FilesJob
    game: Game

    @property
    def around(self) -> Around: ...

    @property
    def key(self) -> Secret | None: ...

    @property
    def folder(self) -> Path: ...


def way_to(record: HostRecord, relay_port: int) -> tuple[str, str]:
    """Server (``host:port``) and chat (``ws://host:port``) as the game finds them.

    A public host is reached through the relay on this PC, a private one by itself.
    """
    if record.public:
        return f"127.0.0.1:{relay_port}", f"ws://127.0.0.1:{relay_port}"
    return f"{record.host}:{record.port}", f"ws://{record.host}:{CHAT_PORT}"


def command_of(record: HostRecord) -> str:
    """The command that starts the game, with placeholders."""
    return record.command or DOCUMENTED


def start_at(member: Player, server: str, chat: str) -> Start:
    """What the command's placeholders stand for, with these addresses (``host:port``, ``ws://``)."""
    return Start(str(member.folder), server, chat, member.record.program or USUAL_PROGRAM)


def runner_of(member: Player) -> Runner | None:
    """What is put in front of the game's program."""
    record = member.record
    program = record.program or USUAL_PROGRAM
    return chosen(record.runner, command_of(record), program, member.around.runner)


async def start_game(member: Player) -> None:
    """Ask the host whether it would let the player in, and start the game; tells the machine."""
    try:
        await _start(member)
    except (accounts.Refused, CannotPlay) as why:
        member.inputs.failed(str(why))
    except BadCommand as why:
        member.inputs.failed(words.BAD_COMMAND.format(why=why))
    except OSError as why:
        reason = why.strerror or why
        member.inputs.failed(words.NOT_WRITABLE.format(folder=member.folder, why=reason))
    except NoProgram as why:
        member.inputs.failed(words.NO_PROGRAM.format(program=why))


async def _start(member: Player) -> None:
    key = member.key
    if key is None:
        raise accounts.Refused(words.KEY_REFUSED)
    await accounts.recognise(member.client, key)
    if not await member.files.is_newest():
        raise CannotPlay(words.VERSION)
    runner, environ = runner_of(member), dict(os.environ)
    if runner is not None:
        await member.around.in_thread(runner.prepare, member.folder)
        environ |= runner.environ(member.folder)
    if member.host.stage is Stage.STARTING:
        _start_by_way(member, key, runner, environ)
        member.inputs.started()


def _start_by_way(
    member: Player, key: Secret, runner: Runner | None, environ: dict[str, str]
) -> None:
    """Make the host reachable, and start the game; without a game the way is closed again."""
    start = start_at(member, *member.around.open_way(member.record))
    try:
        front = runner.command if runner is not None else ""
        arguments = start.arguments(command_of(member.record), front, key.reveal())
        member.game.start(arguments, str(member.folder), environ)
    except BaseException:
        member.around.close_way(member.record)
        raise
