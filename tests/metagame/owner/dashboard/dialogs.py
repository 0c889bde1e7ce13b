"""The dashboard's dialogs, and the live test that checks each dialog with axe."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.sources import nodes

LIVE = Path(__file__).parents[3] / "live"
STATIC = Path(__file__).parents[4] / "svcserver/metagame/owner/dashboard/static"
OTHERS = {"uplot.js", "dialog.js"}  # a library, and the file that draws all dialogs

DIALOGS: Mapping[str, tuple[str, str]] = {  # title: file of tests/live, and the button it presses
    "My access": ("test_dashboard_people.py", "Create a dashboard key"),
    "Create a dashboard key": ("test_dashboard_people.py", "Create"),
    "Go back to the account key": ("test_dashboard_people.py", "Use it"),
    "Your dashboard key": ("test_dashboard_people.py", "Close"),
    "Add a second factor": ("test_dashboard_people.py", "Add"),
    "Remove the second factor": ("test_dashboard_people.py", "Remove"),
    "New key for *?": ("test_dashboard_people.py", "Create"),
    "The key of *": ("test_dashboard_people.py", "Close"),
    "Move the notes (currency) of * to another account": ("test_dashboard_people.py", "Move"),
    "Delete * for ever?": ("test_dashboard_people.py", "Delete"),
    "Kick *?": ("test_dashboard_people.py", "Kick"),
    "Role of *": ("test_dashboard_people.py", "Change"),
    "Ban *?": ("test_dashboard_people.py", "Ban"),
    "Unban *?": ("test_dashboard_people.py", "Unban"),
    "Mute *?": ("test_dashboard.py", "Mute"),
    "Unmute *?": ("test_dashboard.py", "Unmute"),
    "Rename *": ("test_dashboard.py", "Rename"),
    "Audit: * *": ("test_dashboard.py", "Close"),  # a row of the audit log
    "Disband *?": ("test_dashboard.py", "Disband"),
    "New invite": ("test_dashboard.py", "Create"),
    "Invites to print": ("test_dashboard_invites.py", "Close"),
    "Invite": ("test_dashboard.py", "Close"),
    "Revoke *?": ("test_dashboard.py", "Revoke"),
    "Announce to everybody": ("test_dashboard.py", "Announce"),
    "End the announcement?": ("test_dashboard.py", "End it"),
    "Overwrite the progress of *?": ("test_dashboard.py", "Overwrite"),
    "Grant * an entitlement": ("test_dashboard.py", "Grant"),
    "*: version * to *": ("test_dashboard.py", "Close"),
    "Roll * back to version *?": ("test_dashboard.py", "Roll back"),
    "Roll the loadouts of * back to version *?": ("test_dashboard.py", "Roll back"),
    "* over time": ("test_dashboard.py", "Close"),
    "Load of *": ("test_dashboard_machine.py", "Close"),
    "Pause new hunts?": ("test_dashboard_machine.py", "Pause"),
    "Allow new hunts again?": ("test_dashboard_machine.py", "Allow"),
    "Restart the * on port *?": ("test_dashboard_machine.py", "Restart"),
    "Stop the * on port *?": ("test_dashboard_machine.py", "Stop"),
    "Drain *?": ("test_dashboard_machine.py", "Drain"),
    "Use * again?": ("test_dashboard_machine.py", "Use again"),
    "Back up now?": ("test_dashboard_host.py", "Back up"),
    "Schedule of backups": ("test_dashboard_host.py", "Change"),
    "Download the backup of *": ("test_dashboard_host.py", "Download"),
    "Downloading *": ("test_dashboard_host.py", "Cancel the download"),
    "Restore the backup of *": ("test_dashboard_host.py", "Close"),
    "Add an alert channel": ("test_dashboard_host.py", "Continue"),
    "Alerts to *": ("test_dashboard_host.py", "Add"),
    "Signing secret": ("test_dashboard_host.py", "Close"),
    "Change *": ("test_dashboard_host.py", "Change"),
    "Remove *?": ("test_dashboard_host.py", "Remove"),
    "Reset *?": ("test_dashboard_settings.py", "Reset"),
}

_OPENS = re.compile(r"(?<![\w.])(?:ask|show|question)\(|\bconst title = (?=`)")
_TEXT = re.compile(r'"([^"]*)"|`([^`]*)`')
_EITHER = re.compile(r'\$\{[^}?]*\? "([^"]*)" : "([^"]*)"\}')
_BOTH = re.compile(r"<([^|<>]*)\|([^|<>]*)>")  # the result of replacing such an expression
_FILLED = re.compile(r"\$\{[^}]*\}")


def titles() -> Iterator[str]:
    """Yield the titles of all dialogs in the code, with ``*`` in place of inserted values."""
    for file in STATIC.glob("*.js"):
        if file.name in OTHERS:
            continue
        text = _FILLED.sub("*", _EITHER.sub(r"<\1|\2>", file.read_text("utf-8")))
        for opened in _OPENS.finditer(text):
            for title in _titles(text[opened.end() : opened.end() + 400].lstrip()):
                yield from {_BOTH.sub(rf"\{number}", title) for number in (1, 2)}


def _titles(after: str) -> Iterator[str]:
    """Yield the titles in a call, from its member ``title:`` or else from its first argument."""
    if after[0] in '"`':
        title = _TEXT.match(after)
        assert title is not None
        yield title[1] or title[2]
        return
    for reply in re.finditer(r"\btitle: ([^,]*),", after.split(");")[0]):
        yield from (text[1] or text[2] for text in _TEXT.finditer(reply[1]))


def pressed(file: str) -> set[str]:
    """Return the names of the dialog buttons that the tests in a file press."""
    source = (LIVE / file).read_text("utf-8")
    calls = (argument for argument in nodes(source) if isinstance(argument, ast.Call))
    named = (
        argument.args[0]
        for argument in calls
        if argument.args and getattr(argument.func, "attr", "") in ("confirm", "answer")
    )
    return {str(argument.value) for argument in named if isinstance(argument, ast.Constant)}
