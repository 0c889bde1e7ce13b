"""The ``svc-launcher`` program: its command line, and the creation of the launcher's parts."""

from __future__ import annotations

import argparse
import atexit
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import MultiService
from twisted.internet.threads import blockingCallFromThread, deferToThread
from twisted.logger import (
    FileLogObserver,
    FilteringLogObserver,
    LogEvent,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    formatEventAsClassicLogText,
    globalLogBeginner,
)
from twisted.python.failure import Failure
from twisted.python.logfile import LogFile

from svcserver.kernel import json
from svcserver.kernel.digits import whole_in
from svcserver.kernel.every import Every
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.reactor_run import stop_with_the_terminal
from svcserver.kernel.umask import let_nobody_else_write
from svcserver.launcher import one_instance, runners, windows, words
from svcserver.launcher.console import Console, console_here, restoring
from svcserver.launcher.crashes import hard_crashes, write_report
from svcserver.launcher.host_list import HostList
from svcserver.launcher.keystore import open_keys
from svcserver.launcher.locked_files import do_all, unlink
from svcserver.launcher.own_program import (
    WINDOW,
    OwnProgram,
    WindowsProgram,
    own_program,
    packed_program,
    windows_program,
)
from svcserver.launcher.page import PageHandler
from svcserver.launcher.page_guard import PageSessions
from svcserver.launcher.page_server import PageServer
from svcserver.launcher.places import Places, downloads_here, places_here
from svcserver.launcher.private_files import make_private_folder, write_private
from svcserver.launcher.program import Launcher
from svcserver.launcher.scheme import scheme_of, user_registry
from svcserver.launcher.start_menu import StartMenu
from svcserver.launcher.terminal import Terminal
from svcserver.launcher.updates import Updates
from svcserver.launcher.view import VERSION
from svcserver.relay.relaying import DEFAULT_PORT

FILE = "links.json"


@frozen
class LinkChoice:
    """The player's choice of whether ``svc:`` links open the launcher, saved in ``state``."""

    state: Path

    def wanted(self) -> bool:
        """Return whether ``svc:`` links open the launcher: True unless the player refused."""
        try:
            data = json.parse((self.state / FILE).read_bytes())
        except (OSError, json.BadJson):
            return True
        return not (isinstance(data, dict) and data.get("wanted") is False)

    def keep(self, *, wanted: bool) -> None:
        """Save whether ``svc:`` links are to open the launcher; raises OSError."""
        write_private(self.state / FILE, json.dump({"wanted": wanted}))


log = Logger()

LOG_SIZE = 1024 * 1024
LOOK_S = 1.0
LAST_WORDS_S = 0.2
UNUSED_S = 60.0  # how long the launcher runs without a page, a game or a download
LOOK_UNUSED_S = 5.0


def print_visible(*lines: str) -> None:
    """Print lines for the player; line breaks within a line are escaped."""
    for line in lines:
        print(visible(line), flush=True)  # noqa: T201 - the one place that prints


def show_message(text: str, *, error: bool = False) -> None:
    """Print a text, or show it in a dialog if this Windows program has no console."""
    print_visible(text)
    if sys.platform == "win32" and Path(sys.executable).name.lower() == WINDOW:
        windows.show_dialog(text, error=error)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; exits with a usage message if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="svc-launcher",
        description="Joins a host, downloads the game's files, starts the game.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="INVITE",
        help="an invite (svc://join...); or 'remove' to undo what the launcher has added here",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="use the terminal instead of a page"
    )
    parser.add_argument(
        "--print-link", action="store_true", help="print the page's link, open no browser"
    )
    links = parser.add_mutually_exclusive_group()
    links.add_argument(
        "--no-links",
        action="store_true",
        help="do not register for svc: links, now and at later starts",
    )
    links.add_argument(
        "--links",
        action="store_true",
        help="register for svc: links, now and at later starts, even in place of another program",
    )
    parser.add_argument("--key-file", action="store_true", help="store keys in a private file")
    named = f"svc-launcher {VERSION}"
    parser.add_argument("--version", action="version", version=named)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until the player quits; return the exit status."""
    let_nobody_else_write()
    line = list(sys.argv[1:] if argv is None else argv)
    places = places_here(os.environ)
    try:
        options = arguments(line)
    except SystemExit:  # after --version, --help or a wrong option
        _give_way(windows_program(places, VERSION))
        raise
    try:
        return _run(line, options, places)
    except Exception as error:
        log.failure("the launcher has crashed")
        show_message(write_report(error, Path(places.state), VERSION), error=True)
        return 1


def _run(line: Sequence[str], options: argparse.Namespace, places: Places) -> int:
    """Do what the command line says; return the exit status."""
    if options.what == "remove":
        return _remove(places, windows_program(places, VERSION))
    program = own_program(places, VERSION, copied=_wants_entry(options, places))
    notice = _install(program) if program is not None else ""
    state = Path(places.state)
    make_private_folder(state)
    try:
        lock = one_instance.lock_or_hand_over(state, options.what)
        if isinstance(lock, str):
            _give_way(program)
            return _show_running(lock, options)
    except one_instance.LauncherUnresponsive:
        _give_way(program)
        show_message(words.RUNS_SILENTLY, error=True)
        return 1
    except OSError as error:
        show_message(words.OWN_FILES.format(folder=state, why=error), error=True)
        return 1
    try:
        with hard_crashes(state):
            after = _run_alone(line, options, places, program, notice)
    finally:
        lock.release()  # also before the dialog about a crash
    if isinstance(after, str):
        show_message(after, error=True)
        return 1
    return _start(after) if after else 0


def _run_alone(
    line: Sequence[str],
    options: argparse.Namespace,
    places: Places,
    program: OwnProgram | None,
    notice: str,
) -> list[str] | str:
    """Run the launcher; return the command to run afterwards, or [] if nothing is to be run.

    If the launcher cannot run, return a text that says why.
    """
    state, reactor = Path(places.state), monotonic_reactor()
    try:
        if program is not None and (newer := _newer_command(program)):
            return [*newer, *line]  # the log is not open yet: Windows would lock it
        _begin_log(state)
        running_now = LauncherProgram.make(reactor, places, options, program, notice)
    except (json.BadJson, OSError) as error:
        return words.OWN_FILES.format(folder=state, why=error)
    reactor.callWhenRunning(running_now.try_start)
    reactor.addSystemEventTrigger("before", "shutdown", running_now.stop)
    _end_with_the_terminal(reactor)
    reactor.run()
    if running_now.fault is not None:
        raise running_now.fault
    if not running_now.successor:
        return []
    running_now.restore()
    return [*running_now.successor, *(word for word in line if word[:2] == "--")]


def _give_way(program: OwnProgram | None) -> None:
    """Let the launcher try a new version again when it next starts.

    A new version counts as failed if it ends before the player can use it. Call this function if
    the version ends early for a harmless reason, such as ``--help``.
    """
    try:
        if program is not None:
            program.give_way()
    except OSError as error:
        log.warn(
            "the launcher cannot prepare its next start: {why}. At the next start, the launcher "
            "may treat the new version as failed, and start the old version.",
            why=error,
        )


def _newer_command(program: OwnProgram) -> list[str]:
    """Return the command of the version that must run instead of this program, or []."""
    try:
        return program.newer_command()
    except OSError as error:
        log.warn("the installed version of the launcher cannot be started: {why}", why=error)
        return []


def _show_running(link: str, options: argparse.Namespace) -> int:
    """Open the page of the launcher that already runs; return the exit status."""
    if not link:
        show_message(words.RUNS_ALREADY, error=True)
        return 1
    print_visible("The launcher already runs. Its page shows the invite.")
    if not options.no_browser and not options.print_link:
        webbrowser.open(link)
    return 0


def _wants_entry(options: argparse.Namespace, places: Places) -> bool:
    """Return whether this start registers the launcher for ``svc:`` links.

    On Linux, the registration is also a menu entry.
    """
    if options.no_links or options.print_link:
        return False
    return bool(options.links) or LinkChoice(Path(places.state)).wanted()


def _install(program: OwnProgram) -> str:
    """Install this program for the user; return "", or a text that says why that is impossible."""
    try:
        program.install()
    except OSError as error:
        return words.NOT_COPIED.format(why=error)
    return ""


def _start(command: Sequence[str]) -> int:
    """Start another version instead of this version.

    On Windows, if the started version has a console, wait until that version ends.
    """
    if sys.platform != "win32":
        os.execv(command[0], list(command))  # noqa: S606 - it needs no shell
    started = subprocess.Popen(list(command), stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr)
    return 0 if Path(command[0]).name.lower() == WINDOW else started.wait()


def _end_with_the_terminal(reactor: Any) -> None:
    """Stop the launcher when its terminal closes.

    The launcher then stops the game, which the terminal's hang-up signal does not reach.
    """
    if sys.platform == "win32" and not windows.on_console_close(
        lambda: reactor.callFromThread(reactor.stop)
    ):
        log.warn("the launcher will not end cleanly when its console is closed")
    stop_with_the_terminal(reactor)


def relay_port(text: str, say: Callable[[str], None]) -> int:
    """Return the relay's port for the game; report an invalid setting and use the default."""
    # relay/settings.py checks the same, but is not packaged with the launcher
    if not text.strip():
        return DEFAULT_PORT
    port = whole_in(text.strip(), 5)
    if port is not None and 1024 <= port < 65536:
        return port
    say(f"SVC_RELAY_PORT must be a port from 1024 to 65535. The relay uses {DEFAULT_PORT}.")
    return DEFAULT_PORT


def _remove(places: Places, program: WindowsProgram | None) -> int:
    """Undo what the launcher has added to the system; return the exit status.

    A running launcher is ended first. The player's choice about ``svc:`` links is deleted on
    Windows, and set to "no" on other systems.
    """
    state = Path(places.state)
    links, choice = scheme_of(sys.platform, places), LinkChoice(state)
    running = one_instance.find(state)
    if running is not None and not running.end():
        show_message(words.END_GAME_FIRST, error=True)
        return 1
    steps: list[Callable[[], object]] = [lambda: print_visible(links.remove())]
    packed = packed_program(places, VERSION) if program is None else None
    if program is None:
        steps += [packed.remove] if packed is not None else []
        if state.is_dir():
            steps.append(lambda: choice.keep(wanted=False))
    else:
        steps = [scheme_of(sys.platform, places, program.opening()).remove]
        if places.menu is not None:
            steps.append(StartMenu(Path(places.menu), user_registry()).remove)
        steps.append(lambda: unlink(state / FILE))
        if not program.installed:
            steps.append(program.remove)
    status = 0
    try:
        do_all(*steps)
    except OSError as error:
        status = 1
        show_message(words.NOT_REMOVED.format(why=error), error=True)
    if status == 0 and (program is not None or packed is not None):
        folder = state.parent if program is not None else f"{state} and {places.games}"
        show_message(words.REMOVED.format(folder=folder))
    if program is not None and program.installed:
        program.remove()  # begins when the dialog is closed and this program ends
    return status


def _begin_log(state: Path) -> None:
    """Write the log to a file of limited size, because the terminal is for the player."""
    file: Any = LogFile("launcher.log", str(state), rotateLength=LOG_SIZE, maxRotatedFiles=2)
    os.chmod(file.path, 0o600)
    lines = FileLogObserver(file, _log_text)
    only = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
    globalLogBeginner.beginLoggingTo(
        [FilteringLogObserver(lines, [only])], redirectStandardIO=False
    )


def _log_text(event: LogEvent) -> str:
    """Format a log event: escape control characters, and indent all lines after the first."""
    text = formatEventAsClassicLogText(event) or ""
    return "\n    ".join(map(visible, text.rstrip("\n").split("\n"))) + "\n"


@define(eq=False, slots=False)
class LauncherProgram:
    """The running launcher, with its page and its terminal."""

    reactor: Any
    state: Path
    options: argparse.Namespace
    launcher: Launcher
    page: PageHandler
    places: Places
    program: OwnProgram | None  # None if this launcher cannot update itself
    notice: str  # why the program could not be installed, or ""
    server: PageServer = field(init=False)
    updates: Updates | None = field(default=None, init=False)
    successor: list[str] = field(factory=list, init=False)  # the command to run after the end
    fault: Exception | None = field(default=None, init=False)  # why it could not start
    parts: MultiService = field(factory=MultiService, init=False)
    is_quitting: bool = field(default=False, init=False)
    _is_confirmed: bool = field(default=False, init=False)
    restore: Callable[[], object] = field(default=lambda: None, init=False)  # the terminal

    @classmethod
    def make(
        cls,
        reactor: Any,
        places: Places,
        options: argparse.Namespace,
        program: OwnProgram | None,
        notice: str,
    ) -> LauncherProgram:
        """Create a LauncherProgram with these options, without starting it."""
        state = Path(places.state)
        launcher = Launcher(
            reactor,
            open_keys(state, use_file=options.key_file),
            HostList(state / "hosts.json"),
            Path(places.games),
            relay_port(os.environ.get("SVC_RELAY_PORT", ""), print_visible),
            runners.find(sys.platform, os.environ, Path.home()),
        )
        page = PageHandler(
            launcher, PageSessions(), Path.home(), downloads_here(os.environ, Path.home())
        )
        return cls(reactor, state, options, launcher, page, places, program, notice)

    def __attrs_post_init__(self) -> None:
        self.server = PageServer(self.reactor, self.page.answer)
        self.page.link = self.link
        # after the page has received its reply
        self.page.quit = lambda: self.reactor.callLater(LAST_WORDS_S, self._stop_reactor)
        if self.program is not None:
            # in a Windows console, this program would take the first line typed for the new version
            stays = self.options.no_browser and sys.platform == "win32"
            restart = None if stays else self.restart
            self.updates = Updates(self.launcher, self.program, VERSION, restart, self.notice)
            self.page.update_text = self.updates.shown
            self.page.restart = self.restart
            self.page.served = self._confirm

    def _stop_reactor(self) -> None:
        """Stop the launcher; a second request while it stops has no effect."""
        if self.reactor.running:
            self.reactor.stop()

    def restart(self) -> str:
        """End this launcher and start its newest version; return why that is impossible, or ""."""
        if self.program is None or self.launcher.busy:
            return words.RESTART_LATER
        self.successor = self.program.command()
        self.page.quit()
        return ""

    def _confirm(self) -> None:
        """Record that this version works, after it has served its page or opened its prompt."""
        if self.program is not None and not self._is_confirmed:
            self._is_confirmed = True
            deferToThread(self.program.confirm).addErrback(_not_confirmed)

    def try_start(self) -> None:
        """Call ``start``; if it fails, save the error and stop the reactor.

        Without this function, the reactor would only log the error.
        """
        try:
            self.start()
        except Exception as error:
            self.fault = error
            self.reactor.stop()

    def link(self) -> str:
        """Return a one-time link to the page.

        The token is the part after the #, because browsers never send that part to a server.
        """
        return f"http://127.0.0.1:{self.server.port}/#{self.page.sessions.new_token()}"

    def start(self) -> None:
        """Open the page or the terminal; if the command line has an invite, show its host."""
        self.launcher.setServiceParent(self.parts)
        self.server.setServiceParent(self.parts)
        console = console_here() if self.options.no_browser else None
        terminal = Terminal(
            self.launcher,
            print_visible if console is None else console.print_lines,
            self._quit,
            self.page.home,
            self.page.downloads,
        )
        if self.updates is not None:
            terminal.notice = self._notice
        if self.options.no_browser:
            Every(self.reactor, LOOK_S, terminal.print_changes, "the terminal").setServiceParent(
                self.parts
            )
        else:
            self.page.pages.expect()
            unused = Every(
                self.reactor, LOOK_UNUSED_S, self._end_unused, "the check for an open page"
            )
            unused.setServiceParent(self.parts)
        if self.updates is not None:
            self.updates.setServiceParent(self.parts)
        self.parts.startService()
        self.page.secret = one_instance.announce(self.state, self.server.port)
        if self.options.what:
            self.launcher.open_link(self.options.what)
        self._register()
        if self.notice:
            log.warn("{why}", why=self.notice)
        if self.options.no_browser:
            self._read_lines(terminal, console)
            self._confirm()
            return
        link = self.link()
        # a Windows program without a console cannot print
        print_visible(
            f"The launcher's page: {link}", "The link works once. Ctrl-C ends the launcher."
        )
        if not self.options.print_link:
            self.reactor.callInThread(webbrowser.open, link)

    def _notice(self) -> str:
        if self.updates is None:
            return ""
        hint = ' Type "updates yes" or "updates no".' if self.updates.question is not None else ""
        return f"{self.updates.text}{hint}"

    def _end_unused(self) -> None:
        """End the launcher after a minute without a page, a game or a download."""
        if self.page.pages.unused_s(busy=self.launcher.busy) >= UNUSED_S:
            log.info("the launcher ends, because no page is open and no game runs")
            self._stop_reactor()

    def _register(self) -> None:
        """Register the launcher for ``svc:`` links, unless the player has refused links.

        On Windows, the Start menu's entries are added in any case. The blocking calls run in
        threads.
        """
        choice, has_flag = LinkChoice(self.state), self.options.links
        try:
            if has_flag or self.options.no_links:
                choice.keep(wanted=has_flag)
        except OSError as error:
            log.warn("the choice about invite links cannot be saved: {why}", why=error)
        program = windows_program(self.places, VERSION)
        if program is not None:
            deferToThread(self._add_entries, program).addErrback(_not_registered)
        if not _wants_entry(self.options, self.places):
            return
        links = scheme_of(sys.platform, self.places, program.opening() if program else ())
        adding = deferToThread(links.add, over_another=has_flag)
        adding.addCallback(lambda result: log.info("{told}", told=result))
        adding.addErrback(_not_registered)

    def _add_entries(self, program: WindowsProgram) -> None:
        """Delete old versions of the program; if it is installed, add it to the Start menu."""
        program.tidy()
        if program.installed and self.places.menu is not None:
            menu = StartMenu(Path(self.places.menu), user_registry())
            menu.add(Path(*program.opening()), program.version)

    def _quit(self) -> None:
        self.is_quitting = True
        self._stop_reactor()

    def _read_lines(self, terminal: Terminal, console: Console | None) -> None:
        """Read the player's lines in a daemon thread."""
        print_visible(self.launcher.keys.where, "Type help for a list of commands.")
        terminal.print_changes()
        if console is not None:
            self.restore = restoring()
            atexit.register(self.restore)

        def read() -> None:
            for line in sys.stdin if console is None else console.lines(terminal.completions):
                # wait, so that the command's output comes before the next prompt
                blockingCallFromThread(self.reactor, terminal.line, line)
                if self.is_quitting:
                    return
            self.reactor.callFromThread(terminal.ended)

        threading.Thread(target=read, daemon=True).start()

    def stop(self) -> Any:
        """Stop everything.

        The game is stopped as well, because it cannot continue without the relay.
        """
        one_instance.withdraw(self.state)
        return self.parts.stopService()


def _not_confirmed(why: Failure) -> None:
    """Log that this version could not be recorded as working.

    The next start may then return to the previous version.
    """
    log.warn(
        "the launcher could not record that its new version works: {why}",
        why=why.getErrorMessage(),
    )


def _not_registered(why: Failure) -> None:
    """Log that the launcher could not be registered with the system.

    Players can still start the launcher and paste an invite.
    """
    log.warn("the launcher is not registered with the system: {why}", why=why.getErrorMessage())


if __name__ == "__main__":
    sys.exit(main())
