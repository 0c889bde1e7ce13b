"""The launcher in a terminal: it uses the same state machine as the page, but line by line."""

import os
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel.digits import whole_in
from svcserver.kernel.foreign_text import visible
from svcserver.launcher import words
from svcserver.launcher.choices import Choices, choose
from svcserver.launcher.host_list import NO, YES
from svcserver.launcher.membership import Membership
from svcserver.launcher.program import CannotJoin, Launcher, OtherKey
from svcserver.launcher.stages import BUSY, Stage
from svcserver.launcher.view import describe_host

log = Logger()

# All of the host's text is printed ``quoted``.
MARK = "  | "  # begins every line of the host's text, and no other line
MOST_FILES = 1_000  # entries of a folder that are offered as completions
LEAST = 20  # characters of a line, however narrow the terminal is
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def quoted(text: str, width: int) -> list[str]:
    """Wrap a text from the host to ``width``, with a mark at the start of each line."""
    lines = []
    for line in text.split("\n"):
        safe = visible(line)
        room = width - len(MARK) if safe.isascii() else (width - len(MARK)) // 2
        lines += [f"{MARK}{piece}" for piece in textwrap.wrap(safe, max(LEAST, room)) or [""]]
    return lines


def news(shown: dict[str, Any]) -> list[str]:
    """Return the owner's news items, one string each."""
    return [f"{item['date'][:10]}  {item['title']}\n{item['body']}\n" for item in shown["news"]]


def people(shown: dict[str, Any]) -> list[str]:
    """Return a line for each player online, friends first; a friend's line says how to join."""
    friends = set(shown["hunter"].get("friends", ()))
    players = shown["status"].get("players", ())
    lines = []
    for player in sorted(players, key=lambda player: player["name"] not in friends):
        if player["name"] in friends and player["name"] != shown["username"]:
            lines.append(
                f"{player['name']}, your friend, {player['place']}. {player['meet']}".rstrip()
            )
        else:
            lines.append(f"{player['name']}, {player['place']}")
    return lines


def hunter(shown: dict[str, Any]) -> list[str]:
    """Return lines about the player: profile, guild, mastery, hunts and characters."""
    mine = shown["hunter"]
    if not mine:
        return []
    lines = [
        mine["profile"],
        f"guild: {mine['guild'] or 'none'}  hunt pass: {mine['huntPass'] or 'none'}",
    ]
    lines += [
        f"mastery  {track['name']}: {track['rank']} of {track['of']}" for track in mine["tracks"]
    ]
    lines += [f"hunt  {when(hunt['at'])}  {hunt['title']}" for hunt in mine["hunts"]]
    for character in mine["characters"]:
        saves = ", ".join(map(when, character["saves"])) or "no save"
        lines.append(f"character  {character['name']}: {saves}")
    return lines


def when(milliseconds: int) -> str:
    """Format a host's timestamp in this PC's time zone; empty if it is out of range."""
    try:
        return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return ""


NO_HOST = "No host yet: paste the invite that its owner has sent you."
COMMANDS = {  # name -> arguments, explanation
    "join": ("INVITE", "Open an invite."),
    "agree": ("", "Trust the host, because the words or the address match."),
    "code": ("CODE", "Correct the code of the invite."),
    "try": ("NAME", "Check whether a name is free."),
    "name": ("NAME", "Create your account with this name."),
    "import": ("FILE", "Import a key file from another PC."),
    "replace": ("FILE", "Import a key file in place of your key."),
    "check": ("", "Check the game's files."),
    "repair": ("", "Check every byte of the game's files."),
    "get": ("", "Download the missing files."),
    "play": ("", "Start the game."),
    "stop": ("", "Stop the check, the download or the game."),
    "status": ("", "Show the state of the host."),
    "news": ("", "Show the owner's news."),
    "people": ("", "Show who is online, and how to meet friends."),
    "hunter": ("", "Show your progress."),
    "updates": ("YES|NO", "Take the launcher's updates from this host, or not."),
    "hosts": ("", "List all hosts."),
    "use": ("NUMBER", "Switch to another host of the list."),
    "set": ("SETTING VALUE", "Change folder, command, runner or limit (MB per second)."),
    "save-key": ("", "Save your key to a file, for another PC."),
    "renew-key": ("", "Replace your key by a new one."),
    "passport": ("", "Save your passport, for another host."),
    "leave": ("", "Remove the host from the list."),
    "help": ("[COMMAND]", "Show all commands, or one."),
    "quit": ("", "End the launcher."),
}
_ALIASES = {"?": "help", "exit": "quit"}
_SETTINGS = ("folder", "command", "runner", "limit")
_USAGE_WIDTH = max(len(f"{name} {more}") for name, (more, _) in COMMANDS.items())


def usage(name: str) -> str:
    """Return the help line of a command."""
    arguments, explanation = COMMANDS[name]
    return f"{f'{name} {arguments}':{_USAGE_WIDTH}}  {explanation}"


def completions(line: str, hosts: int) -> list[str]:
    """Return the possible completions of ``line``, as whole lines."""
    name, blank, rest = line.partition(" ")
    if not blank:
        starts = (f"{command} " if more else command for command, (more, _) in COMMANDS.items())
        return sorted(start for start in starts if start.startswith(name))
    choices: Iterable[str] = ()
    match name:
        case "help":
            choices = COMMANDS
        case "set":
            choices = _SETTINGS
        case "use":
            choices = map(str, range(1, hosts + 1))
        case "import" | "replace":
            choices = _files(rest)
    return [f"{name} {choice}" for choice in choices if choice.startswith(rest)]


def _path(text: str) -> Path:
    """Return the path that the player typed; ``~`` stands for the player's home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no such user
        return Path(text)


def _files(start: str) -> list[str]:
    """Return the paths that begin with ``start``, folders with a slash at the end."""
    typed = _path(start)
    folder = typed if start.endswith(("/", os.sep)) or not start else typed.parent
    shown = start[: len(start) - len(typed.name)] if folder != typed else start
    try:
        with os.scandir(folder) as entries:
            return sorted(
                f"{shown}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in islice(entries, MOST_FILES)
            )
    except OSError:
        return []


@define
class Terminal:
    """The terminal, which runs the commands that the player types, and prints what has changed.

    ``write_lines`` prints lines; ``quote`` prints text that comes from the host.
    """

    launcher: Launcher
    write: Callable[[str], object]  # called with a line to print
    quit: Callable[[], None]
    home: Path
    downloads: Path  # for key files and passports
    notice: Callable[[], str] = str  # about an update of the launcher
    _host: str = field(default="", init=False)
    _printed: dict[tuple[str, str], str] = field(factory=dict, init=False)  # by host and topic
    _last_line: bool = field(default=False, init=False)

    @property
    def member(self) -> Membership | None:
        """The host that commands apply to: the selected host, else the first host, else None."""
        members = self.launcher.members
        return members.get(self._host) or next(iter(members.values()), None)

    def write_lines(self, *lines: str) -> None:
        """Print lines; line breaks and control characters within a line are escaped."""
        for line in lines:
            self.write(visible(line))

    def quote(self, head: str, texts: Sequence[str]) -> None:
        """Print text from the host below a heading from the launcher."""
        width = shutil.get_terminal_size().columns - 1
        self.write_lines(head, *(line for text in texts for line in quoted(text, width)))

    def line(self, text: str) -> None:
        """Run a command that the player typed; an unexpected error is logged and reported."""
        try:
            self._line(text)
        except Exception:
            log.failure("a command failed")
            self.write_lines(words.DEFECT)

    def _line(self, text: str) -> None:
        word, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        if word.lower().startswith("svc:"):
            word, rest = "join", text.strip()
        command = _ALIASES.get(word.lower(), word.lower())
        if not command:
            return
        if command not in COMMANDS:
            self.write_lines(f'Unknown command "{word}". Type help for a list.')
        elif not rest and COMMANDS[command][0] not in ("", "[COMMAND]"):
            self.write_lines(f"Usage: {command} {COMMANDS[command][0]}")
        else:
            self._carry_out(command, rest)

    def _carry_out(self, command: str, rest: str) -> None:
        match command:
            case "help":
                self._help(rest.lower())
            case "quit":
                self.quit()
            case "hosts":
                self._hosts()
            case "join" | "import" | "replace":
                self._join(command, rest)
            case "use":
                self._use(rest)
            case "set":
                self._set(rest)
            case _:
                self._run_member_command(command, rest)

    def _help(self, name: str) -> None:
        name = _ALIASES.get(name, name)
        if name and name not in COMMANDS:
            self.write_lines(f'Unknown command "{name}". Type help for a list.')
            return
        self.write_lines(*map(usage, [name] if name else COMMANDS))

    def completions(self, line: str) -> list[str]:
        """Return the lines that can complete a line that the player is typing."""
        return completions(line, len(self.launcher.members))

    def ended(self) -> None:
        """Handle the end of standard input, for example when a script has no more commands.

        The launcher then quits as soon as it has nothing to do: no check, no download, no game.
        """
        self._last_line = True

    def _join(self, word: str, rest: str) -> None:
        try:
            member = (
                self.launcher.join(rest)
                if word == "join"
                else self.launcher.bring_file(_path(rest), replace=word == "replace")
            )
        except OtherKey as error:
            self.write_lines(f"{error} Type replace and the file's name.")
            return
        except CannotJoin as error:
            self.write_lines(str(error))
            return
        self._host = member.record.id
        self.print_changes()

    def _use(self, number: str) -> None:
        ids = list(self.launcher.members)
        which = whole_in(number, 4)
        if which is not None and 0 < which <= len(ids):
            self._host = ids[which - 1]
            self._printed.clear()
            self.print_changes()
        else:
            self.write_lines("Type use and a number from the list that hosts prints.")

    def _set(self, rest: str) -> None:
        member, (name, _, text) = self.member, rest.partition(" ")
        if member is None:
            self.write_lines(NO_HOST)
            return
        wanted = Choices.from_membership(member).with_word(name.lower(), text.strip())
        if wanted is None:
            self.write_lines(
                "Type set, then folder, command, runner or limit (MB per second), then the value."
            )
            return
        wrong = choose(member, wanted, self.home)
        shown = describe_host(member, self.launcher.relay_port)["settings"]["shown"]
        self.write_lines(wrong or f"Start command: {shown}")

    def _hosts(self) -> None:
        for number, member in enumerate(self.launcher.members.values(), 1):
            shown = describe_host(member, self.launcher.relay_port)
            self.write_lines(f"{number}  {shown['name']}  {shown['address']}  {shown['username']}")
        if not self.launcher.members:
            self.write_lines(NO_HOST)

    def _run_member_command(self, word: str, rest: str) -> None:
        member = self.member
        if member is None:
            self.write_lines(NO_HOST)
            return
        acts: dict[str, Callable[[], str | None]] = {
            "agree": member.agree,
            "code": lambda: self.launcher.correct_code(member, rest),
            "try": lambda: self._try(member, rest),
            "name": lambda: member.choose(rest),
            "check": lambda: member.inputs.check(False),
            "repair": lambda: member.inputs.check(True),
            "get": member.inputs.fetch,
            "play": member.inputs.play,
            "stop": member.inputs.stop,
            "save-key": lambda: self.launcher.save_key(member, self.downloads),
            "renew-key": member.renew_key,
            "passport": lambda: member.save_passport(self.downloads),
            "leave": lambda: self.launcher.leave(member),
            "updates": lambda: _take_updates(member, rest.lower()),
            "status": lambda: self._printed.clear(),
            "news": lambda: self._quote_host(member, "news", "No news from the owner."),
            "people": lambda: self._quote_host(member, "people", "Nobody is online at the moment."),
            "hunter": lambda: self._quote_host(
                member, "hunter", "The host has no data about you at the moment."
            ),
        }
        sentence = acts[word]()
        if sentence:
            self.write_lines(sentence)
        self.print_changes()

    def _quote_host(self, member: Membership, what: str, nothing: str) -> str:
        """Print the host's texts on a topic; return "".

        If the host has no such texts, return the text in ``nothing``.
        """
        shown = self._shown(member)
        texts = _HOST_TEXTS[what](shown)
        if not texts:
            return nothing
        self.quote(f"{shown['name']}, {what}:", texts)
        return ""

    def _try(self, member: Membership, name: str) -> None:
        self._printed.pop((member.record.id, "name"), None)  # print the same result again, too
        member.try_name(name)

    def print_changes(self) -> None:
        """Print those parts of the host's state that changed since the last call."""
        member = self.member
        if self._last_line and (member is None or member.host.stage not in BUSY):
            self.quit()
        for topic, text in (("notice", self.notice()), ("refusal", self.launcher.refusal)):
            if self._printed.get(("", topic), "") != text:
                self._printed["", topic] = text
                self.write_lines(*filter(None, (text,)))
        if member is None:
            return
        for topic, text in self._lines(member).items():
            if self._printed.get((member.record.id, topic), "") != text:
                self._printed[member.record.id, topic] = text
                if topic != "announced":
                    self.write_lines(text)
                elif text:
                    self.quote(f"{member.record.name} announces:", [text])
                else:
                    self.write_lines(f"{member.record.name}: the announcement is over.")

    def _shown(self, member: Membership) -> dict[str, Any]:
        return describe_host(member, self.launcher.relay_port)

    def _lines(self, member: Membership) -> dict[str, str]:
        """Return a description of the host's state, as a dict from topic to text."""
        shown, host = self._shown(member), member.host
        is_private = host.stage is Stage.INVITED and not shown["public"]
        phrase = _PRIVATE_INVITED if is_private else _PHRASES[host.stage]
        text = f"{shown['name']}: {phrase.format(**_values(shown))}"
        more = host.trouble or shown["note"] or shown["standing"]
        saying = shown["saying"]
        return {
            **({"name": f"{shown['tried']}: {saying}"} if saying else {}),
            "announced": shown["announced"],
            "stage": f"{text} {more}" if more else text,
        }


def _take_updates(member: Membership, answer: str) -> str:
    """Save whether the player takes updates from this host; return a text for the player."""
    if answer not in (YES, NO):
        return "Usage: updates YES|NO"
    member.change(updates=answer)
    return f"Launcher updates from {member.record.name}: {answer}."


def _values(shown: dict[str, object]) -> dict[str, object]:
    files = shown["files"]
    assert isinstance(files, dict)  # noqa: S101 - view.show makes it
    percent = files["done"] * 100 // (files["total"] or 1)
    pace = f", {files['pace']}" if files["pace"] else ""
    return {**shown, "missing": files["missing"], "percent": percent, "pace": pace}


_HOST_TEXTS = {
    "news": news,
    "people": people,
    "hunter": hunter,
}
_PRIVATE_INVITED = (
    "its address in your private network is {address}. Did the owner give you this address? "
    "Type agree to continue."
)
_PHRASES = {
    Stage.INVITED: "its certificate is {words}. Do these words match the ones the owner sent you? "
    "Type agree to continue.",
    Stage.NAMING: 'choose a name. Type "name YourName", or "try YourName" to check it first.',
    Stage.REGISTERING: "waiting for the host.",
    Stage.UNCHECKED: "you are {username}. Type check to check the game's files.",
    Stage.CHECKING: "checking the game's files, {percent} %.",
    Stage.INCOMPLETE: "{missing} must be downloaded. Type get.",
    Stage.FETCHING: "downloading, {percent} %{pace}.",
    Stage.READY: "the game is ready. Type play.",
    Stage.STARTING: "the game is being started.",
    Stage.PLAYING: "you are playing as {username}.",
}
