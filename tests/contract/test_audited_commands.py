"""Every svcctl command that changes something leaves a row in the audit log."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.main import main as svcctl_main
from tests.support.proves import proves

# Commands that leave no row, by the reason.
SHOWS = {  # they only read
    *("account list", "account show", "account saves", "alerts list", "audit"),
    *("backup list", "bundle", "capacity", "cert fingerprint", "content manifest"),
    *("content verify", "db check", "doctor", "drain status", "figures", "fleet nodes"),
    *("gameserver console", "gameserver list", "guild list", "invite list", "keys list"),
    *("openapi", "passport key", "passport trusted", "relay check"),
    *("sanctions", "status", "upgrade"),
}
NO_HOST_YET = {"init", "demo", "db copy"}  # they create a host, whose log is empty
OF_THEIR_OWN = {"play"}  # it acts as a player
BY_THE_MACHINE = {"backup nightly"}  # automatic; it has its own log
# these may run on another machine or as another user
WITHOUT_THE_DATABASE = {"content launcher", "allowlist close-ports"}
LEAVES = re.compile(
    r"\b(noted|recorded|by_staff|_change_access|set_role|new_invite|copy_database)\(|\.post\("
)


def commands(group: Any = svcctl_main, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the full name of every ``svcctl`` command, with the function that the command runs."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), inspect.unwrap(command.callback)


class CommandTests(SynchronousTestCase):
    def test_every_command_that_leaves_a_row_takes_a_reason(self) -> None:
        without = {
            name
            for name, run in commands()
            if LEAVES.search(inspect.getsource(run))
            and "reason" not in inspect.signature(run).parameters
        }
        self.assertEqual(without, {"up", "dashboard"})  # these commands create their own host

    @proves("every act of staff and every refused try is in the audit log")
    def test_every_command_that_changes_something_leaves_a_row(self) -> None:
        silent = {name for name, run in commands() if LEAVES.search(inspect.getsource(run)) is None}
        allowed = SHOWS | NO_HOST_YET | OF_THEIR_OWN | BY_THE_MACHINE | WITHOUT_THE_DATABASE
        self.assertEqual(silent, allowed)
