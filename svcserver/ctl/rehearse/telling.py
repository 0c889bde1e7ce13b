"""What a rehearsal tells: steps, each with what the owner and the players see."""

from __future__ import annotations

from typing import Any

import click
from attrs import define, field

from svcserver.ctl.output import Out
from svcserver.ctl.rehearse.host import Seen


@define
class Telling:
    """Prints the steps, and keeps them for ``--json``; ``waits``: for a key before each."""

    out: Out
    waits: bool = False
    steps: list[dict[str, Any]] = field(factory=list)

    def step(self, title: str) -> None:
        """Begin a step: its title is printed, after a key where the owner asked for pauses."""
        if self.waits and self.steps:
            click.pause("   a key goes on ...")
        self.out.say("", f"{len(self.steps) + 1}. {title}")
        self.steps.append({"title": title, "commands": []})

    def command(self, line: str, answer: str) -> None:
        """Show a command line that the owner would type, and what it answers."""
        self.steps[-1]["commands"].append({"command": line, "answer": answer})
        self.out.say(f"   $ {line}", *(f"     {one}" for one in answer.splitlines()))

    def seen(self, seen: Seen) -> None:
        """Show what log, doctor, status and a player say at this moment."""
        self.steps[-1] |= {
            "log": seen.log,
            "doctor": seen.doctor,
            "status": seen.status,
            "player": seen.player,
        }
        self.out.say(*(f"   log     {one}" for one in seen.log))
        self.out.say(*(f"   doctor  {one}" for one in seen.doctor or ["nothing is wrong"]))
        self.out.say(f"   status  {seen.status}", f"   player  {seen.player}")
