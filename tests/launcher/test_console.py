"""The prompt, the line that the player is typing, and tab completion."""

from collections.abc import Callable
from io import StringIO

from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.console import Console


class FakeReadline:
    """A ``readline`` module in which a line has been typed but not yet sent."""

    completer: Callable[[str, int], str | None] | None = None

    def get_line_buffer(self) -> str:
        return "name Bo"

    def set_completer(self, function: Callable[[str, int], str | None] | None) -> None:
        self.completer = function

    def set_completer_delims(self, string: str) -> None:
        """Do nothing: the tests complete whole lines."""

    def parse_and_bind(self, string: str) -> None:
        """Do nothing: the tests press no key."""


class ConsoleTests(SynchronousTestCase):
    def console(self, editing: FakeReadline | None) -> Console:
        """Return a console that prints a line at the first prompt; then its input ends."""
        answers = iter(["play"])

        def ask(prompt: str) -> str:
            console.out.write(prompt)
            console.print_lines("downloading, 3 %.")
            line = next(answers, None)
            if line is None:
                raise EOFError
            return line

        console = Console(StringIO(), ask, editing)
        return console

    def printed(self, console: Console) -> str:
        assert isinstance(console.out, StringIO)
        return console.out.getvalue()

    def test_typed_line_stays_below_printed_lines(self) -> None:
        console = self.console(FakeReadline())
        console.print_lines("Type help.")
        self.assertEqual([*console.lines(lambda _: [])], ["play"])
        above = "> \r\x1b[Kdownloading, 3 %.\n> name Bo"
        self.assertEqual(self.printed(console), "Type help.\n" + 2 * above)
        console.print_lines("bye\x1b[2J")
        self.assertTrue(self.printed(console).endswith("> name Bobye\\x1b[2J\n"))

    def test_prompt_is_printed_again_without_line_editing(self) -> None:
        console = self.console(None)
        self.assertEqual([*console.lines(lambda _: [])], ["play"])
        self.assertEqual(self.printed(console), 2 * "> \rdownloading, 3 %.\n> ")

    def test_completions_are_given_one_by_one(self) -> None:
        editing = FakeReadline()
        [*self.console(editing).lines(lambda line: [f"{line}ay", f"{line}ug"])]
        assert editing.completer is not None
        completions = [editing.completer("pl", number) for number in range(3)]
        self.assertEqual(completions, ["play", "plug", None])
