"""The command line of ``svc-launcher``, which creates and connects the launcher's parts."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
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
from svcserver.kernel.umask import let_nobody_else_write
from svcserver.launcher import one_instance, runners
from svcserver.launcher.console import Console, console_here, restoring
from svcserver.launcher.host_list import HostList
from svcserver.launcher.keystore import open_keys
from svcserver.launcher.page import Page
from svcserver.launcher.page_guard import Sessions
from svcserver.launcher.page_server import PageServer
from svcserver.launcher.places import Places, downloads_here, places_here
from svcserver.launcher.private_files import make_private_folder, write_private
from svcserver.launcher.program import CannotJoin, Launcher
from svcserver.launcher.scheme import Scheme, scheme_of
from svcserver.launcher.terminal import Terminal
from svcserver.launcher.view import VERSION
from svcserver.relay.relaying import DEFAULT_PORT

FILE = "links.json"


@frozen
class LinkChoice:
    """The player's choice whether ``svc:`` links open the launcher, saved in ``state``."""

    state: Path

    def wanted(self) -> bool:
        """Return whether to register for links: True unless the player refused."""
        try:
            data = json.parse((self.state / FILE).read_bytes())
        except (OSError, json.BadJson):
            return True
        return not (isinstance(data, dict) and data.get("wanted") is False)

    def keep(self, *, wanted: bool) -> None:
        """Save the choice, or raise OSError."""
        write_private(self.state / FILE, json.dump({"wanted": wanted}))


log = Logger()

LOG_SIZE = 1024 * 1024
LOOK_S = 1.0
LAST_WORDS_S = 0.2


def say(*lines: str) -> None:
    """Print lines for the player; line breaks in foreign text are escaped."""
    for line in lines:
        print(visible(line), flush=True)  # noqa: T201 - the one place that prints


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
        help="an invite (svc://join...); or 'remove' to undo the registration for svc: links",
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
    options = arguments(sys.argv[1:] if argv is None else argv)
    places = places_here(os.environ)
    if options.what == "remove":
        return _remove(scheme_of(sys.platform, places), LinkChoice(Path(places.state)))
    state = Path(places.state)
    make_private_folder(state)
    running = one_instance.find(state)
    link = running.hand_over(options.what) if running is not None else None
    if link is not None:
        say("The launcher already runs. Its page shows the invite.")
        if not options.no_browser and not options.print_link:
            webbrowser.open(link)
        return 0
    reactor = monotonic_reactor()
    try:
        _begin_log(state)
        running_now = Program.make(reactor, places, options)
    except (json.BadJson, OSError) as error:
        say(f"The launcher's own files in {state} cannot be read: {error}. Repair or remove them.")
        return 1
    reactor.callWhenRunning(running_now.start)
    reactor.addSystemEventTrigger("before", "shutdown", running_now.stop)
    _end_with_the_terminal(reactor)
    reactor.run()
    return 0


def _end_with_the_terminal(reactor: Any) -> None:
    """Stop the launcher when its terminal closes.

    The launcher then stops the game, which the terminal's hang-up signal does not reach.
    """
    hangup = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
        signal.signal(hangup, lambda *_: reactor.callFromThread(reactor.stop))


def relay_port(text: str, say: Callable[[str], None]) -> int:
    """Return the relay's port for the game; report an invalid setting and use the default.

    This repeats the relay's own parsing, because the relay's settings module is not packaged with
    the launcher.
    """
    if not text.strip():
        return DEFAULT_PORT
    port = whole_in(text.strip(), 5)
    if port is not None and 1024 <= port < 65536:
        return port
    say(f"SVC_RELAY_PORT must be a port from 1024 to 65535. The relay uses {DEFAULT_PORT}.")
    return DEFAULT_PORT


def _remove(links: Scheme, choice: LinkChoice) -> int:
    """Undo the registration for links, for later starts too; return the exit status."""
    try:
        say(links.remove())
        if choice.state.is_dir():
            choice.keep(wanted=False)
    except OSError as error:
        say(f"The registration for svc: links could not be undone: {error}")
        return 1
    return 0


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
    """Format a log line; line breaks in foreign text, such as a traceback, are escaped."""
    text = formatEventAsClassicLogText(event) or ""
    return "\n    ".join(map(visible, text.rstrip("\n").split("\n"))) + "\n"


@define(eq=False, slots=False)
class Program:
    """The running launcher, with its page and its terminal."""

    reactor: Any
    state: Path
    options: argparse.Namespace
    launcher: Launcher
    page: Page
    places: Places
    server: PageServer = field(init=False)
    parts: MultiService = field(factory=MultiService, init=False)
    is_quitting: bool = field(default=False, init=False)

    @classmethod
    def make(cls, reactor: Any, places: Places, options: argparse.Namespace) -> Program:
        """Return a program with these options that is not started yet."""
        state = Path(places.state)
        launcher = Launcher(
            reactor,
            open_keys(state, use_file=options.key_file),
            HostList(state / "hosts.json"),
            Path(places.games),
            relay_port(os.environ.get("SVC_RELAY_PORT", ""), say),
            runners.find(sys.platform, os.environ, Path.home()),
        )
        page = Page(launcher, Sessions(), Path.home(), downloads_here(os.environ, Path.home()))
        return cls(reactor, state, options, launcher, page, places)

    def __attrs_post_init__(self) -> None:
        self.server = PageServer(self.reactor, self.page.answer)
        self.page.link = self.link
        # after the page has received its reply
        self.page.quit = lambda: self.reactor.callLater(LAST_WORDS_S, self.reactor.stop)

    def link(self) -> str:
        """Return a one-time link to the page.

        Its token stands after the #, because browsers never send that part to a server.
        """
        return f"http://127.0.0.1:{self.server.port}/#{self.page.sessions.new_token()}"

    def start(self) -> None:
        """Open the page or the terminal, then the invite from the command line, if there is one."""
        self.launcher.setServiceParent(self.parts)
        self.server.setServiceParent(self.parts)
        console = console_here() if self.options.no_browser else None
        terminal = Terminal(
            self.launcher,
            say if console is None else console.say,
            self._quit,
            self.page.home,
            self.page.downloads,
        )
        if self.options.no_browser:
            Every(self.reactor, LOOK_S, terminal.look, "the terminal").setServiceParent(self.parts)
        self.parts.startService()
        self.page.secret = one_instance.announce(self.state, self.server.port)
        self._join(self.options.what)
        self._have_links_opened()
        if self.options.no_browser:
            self._read_lines(terminal, console)
            return
        link = self.link()
        # a Windows program without a console cannot print
        say(f"The launcher's page: {link}", "The link works once. Ctrl-C ends the launcher.")
        if not self.options.print_link:
            self.reactor.callInThread(webbrowser.open, link)

    def _have_links_opened(self) -> None:
        """Register for links in a thread, unless the player has refused."""
        choice, has_flag = LinkChoice(self.state), self.options.links
        try:
            if has_flag or self.options.no_links:
                choice.keep(wanted=has_flag)
        except OSError as error:
            log.warn("the choice about links is not saved: {why}", why=error)
        if self.options.no_links or self.options.print_link or not (has_flag or choice.wanted()):
            return
        links = scheme_of(sys.platform, self.places)
        adding = deferToThread(links.add, over_another=has_flag)
        adding.addCallback(lambda result: log.info("{told}", told=result))
        adding.addErrback(_not_registered)

    def _join(self, invite: str) -> None:
        if not invite:
            return
        try:
            self.launcher.join(invite)
        except CannotJoin as error:
            say(str(error))

    def _quit(self) -> None:
        self.is_quitting = True
        self.reactor.stop()

    def _read_lines(self, terminal: Terminal, console: Console | None) -> None:
        """Read the player's lines in a daemon thread."""
        say(self.launcher.keys.where, "Type help for a list of commands.")
        if console is not None:
            atexit.register(restoring())

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


def _not_registered(why: Failure) -> None:
    """Log that registering for links failed; players can still paste an invite."""
    log.warn("the launcher is not registered for svc: links: {why}", why=why.getErrorMessage())


if __name__ == "__main__":
    sys.exit(main())
