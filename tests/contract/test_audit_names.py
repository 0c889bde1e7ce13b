"""The audit log's action names match the code, and every svcctl command has one."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame
from svcserver.ctl.main import main as svcctl_main
from svcserver.metagame.accounts.actions import ACTIONS
from tests.support.proves import proves
from tests.support.sources import nodes

# where the name of an act stands among the arguments of what hands it over
NAMED_AT = {
    "AuditEntry": 1,
    "by_staff": 1,
    "_do": 1,
    "note": 2,
    "noted": 1,
    "act_for": 2,
    "_entry": 2,
}
RECORDS = re.compile(
    r"\baudit\.|import .*(Audit|Event)Entry\b|(recorded|moderation|people|noting) import"
    r"|import Behalf|SignInActs"
)
WORDS = re.compile(r"[a-z][a-z -]+\Z")


def acts_in(code: Path) -> set[str]:
    """Return the action names that the code passes on."""
    calls = (
        (getattr(node.func, "attr", getattr(node.func, "id", "")), node.args)
        for file in code.rglob("*.py")
        if RECORDS.search(text := file.read_text("utf-8"))
        for node in nodes(text)
        if isinstance(node, ast.Call)
    )
    return {
        str(word.value)
        for name, arguments in calls
        if len(arguments) > (at := NAMED_AT.get(name, 99))
        for word in ast.walk(arguments[at])
        if isinstance(word, ast.Constant) and WORDS.match(str(word.value))
    }


class ActionTests(SynchronousTestCase):
    def test_the_list_of_actions_is_that_of_the_code(self) -> None:
        actions = acts_in(Path(svcserver.metagame.__file__).parents[1])
        self.assertEqual(ACTIONS.keys(), actions)


# commands that leave no row, and why
SHOWS = {  # what is there, and change nothing
    *("account list", "account show", "account saves", "alerts list", "audit"),
    *("backup list", "bundle", "capacity", "cert fingerprint", "content manifest"),
    *("content verify", "db check", "doctor", "drain status", "figures", "gameserver console"),
    *("gameserver list", "guild list", "invite list", "keys list", "openapi", "passport key"),
    *("passport trusted", "relay check", "sanctions", "status", "upgrade"),
}
NO_HOST_YET = {"init", "demo", "db copy"}  # they make one, whose log is empty
OF_THEIR_OWN = {"play"}  # a player's client
BY_THE_MACHINE = {"backup nightly"}  # what runs says so in its own log
WITHOUT_THE_DATABASE = {  # run where it is not, or by another user than its own
    *("content launcher", "allowlist close-ports"),
}
LEAVES = re.compile(
    r"\b(noted|recorded|by_staff|_change_access|set_role|new_invite|copy_database)\(|\.post\("
)


def commands(group: Any = svcctl_main, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Return every ``svcctl`` command by name, with the function that it runs."""
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
        self.assertEqual(without, {"up"})  # which makes a host, and its first invite

    @proves("every act of staff and every refused try is in the audit log")
    def test_every_command_that_changes_something_leaves_a_row(self) -> None:
        silent = {name for name, run in commands() if LEAVES.search(inspect.getsource(run)) is None}
        allowed = SHOWS | NO_HOST_YET | OF_THEIR_OWN | BY_THE_MACHINE | WITHOUT_THE_DATABASE
        self.assertEqual(silent, allowed)
