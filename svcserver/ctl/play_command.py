"""The command ``svcctl play``: runs and checks a session with simulated players."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

import click
from attrs import asdict, define, evolve, field

from svcserver.ctl import database
from svcserver.ctl.blueprint import program as stand_in
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Failed, Out, counted, fail
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.cleaning import clean
from svcserver.ctl.play.evening import MAX_PLAYERS, Evening, PlayOptions
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import INTERRUPTED, PlayFailed, Story
from svcserver.ctl.play.timings import Timings
from svcserver.kernel.descriptors import raise_file_limit
from svcserver.kernel.digits import whole_in
from svcserver.kernel.reactor_run import run_in_reactor
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts

SESSION_OPTIONS = (
    click.option(
        "--players", type=click.IntRange(1, MAX_PLAYERS), default=4, help="Number of players."
    ),
    click.option("--hunts", type=click.IntRange(0, 100), default=1, help="Number of hunts."),
    click.option(
        "--hunt-seconds", type=click.FloatRange(0, 3600), default=0.0, help="Length of a hunt."
    ),
    click.option("--times", is_flag=True, help="Print the duration of each kind of request."),
)


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that ``play`` and ``demo`` have in common."""
    for option in reversed(SESSION_OPTIONS):
        command = option(command)
    return command


@host_command(None, "play")
@session_options
@click.option(
    "--url",
    metavar="URL",
    help="Connect directly to the metagame at URL, without relay and gateway.",
)
@click.option(
    "--relay-port",
    type=click.IntRange(1024, 65000),
    help="Port of the first relay. Default: SVC_RELAY_PORT in relay.env.",
)
@click.option("--keep", is_flag=True, help="Keep the players' accounts.")
def play(
    host: Host,
    out: Out,
    players: int,
    hunts: int,
    hunt_seconds: float,
    url: str | None,
    relay_port: int | None,
    keep: bool,
    times: bool,
) -> None:
    """Run a scripted session with simulated players.

    The exit code is 0 if everything worked.
    """
    base = url or private_url(host)
    if base is not None:
        check_url(base)
    first = relay_port or relay_port_of(host)
    options = PlayOptions(players, hunts, base.rstrip("/") if base else None, first)
    options = evolve(options, hunt_s=hunt_seconds, keep=keep)
    session = Session(host, out, options)
    why = run(session)
    if why is None and times:
        print_times(out, session.timings)
    out.data(findings(session, why))
    if why is INTERRUPTED:
        fail(why.fault)
    if why is not None:
        fail(f"the session failed at the {why}")


def relay_port_of(host: Host) -> int:
    """Return the first port for the relays of the simulated players."""
    has_one = host.folder is not None and (host.folder / "relay.env").is_file()
    variables = host.variables("relay") if has_one else {}
    return whole_in(variables.get("SVC_RELAY_PORT", ""), 5) or PlayOptions().relay_port


def check_url(base: str) -> None:
    """Raise Failed if ``base`` is not a valid URL of a metagame."""
    try:
        url = urlsplit(base)
        fits = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # the port is not a number
        fits = False
    if not fits:
        fail(f"{base} is not a URL like http://127.0.0.1:61000. Correct --url, or metagame.env.")


def findings(session: Session, why: PlayFailed | None) -> dict[str, Any]:
    """Return the object that ``svcctl play --json`` prints."""
    options = session.options
    result: dict[str, Any] = {"ok": why is None, "players": options.players, "hunts": options.hunts}
    if why is not None:
        result |= {"link": why.link, "reason": why.fault}
    return result | {"operations": [asdict(figure) for figure in session.timings.figures()]}


def print_times(out: Out, timings: Timings) -> None:
    """Print the response times in milliseconds, one row for each kind of request."""
    rows = [
        [
            figure.operation,
            f"{figure.count}",
            f"{figure.median_ms}",
            f"{figure.p99_ms}",
            f"{figure.worst_ms}",
        ]
        for figure in timings.figures()
    ]
    out.text("")
    out.table(["operation", "count", "median ms", "p99 ms", "worst ms"], rows)


def run(session: Session) -> PlayFailed | None:
    """Run the session in a new reactor; return the failure, or None."""
    try:
        return run_in_reactor(session.live)
    except KeyboardInterrupt:
        return session.clean_up(session.out.text) or INTERRUPTED


@define
class Session:
    """A session of simulated players on ``host``.

    At its end it deletes its invite code and, unless ``options.keep`` is true, the accounts.
    """

    host: Host
    out: Out
    options: PlayOptions
    timings: Timings = field(factory=Timings)
    code: str | None = field(default=None, init=False)
    players: list[Player] = field(factory=list)
    failure: PlayFailed | None = field(default=None, init=False)  # of ``clean_up``

    async def live(self, reactor: Any) -> PlayFailed | None:
        """Run the session on ``reactor``, then clean up; return the failure, or None."""
        raise_file_limit()
        story = Story(self.out.text, time.monotonic)
        known = self.host if self.host.folder is not None else None
        why = None
        try:
            if self.options.url is None and known is None:
                raise PlayFailed("host", "unknown; give --config DIR, or the metagame's --url")
            if known is not None:
                self.code = make_invite(known, self.options.players)
            by_url = known is None or self.options.url is not None
            chain = None if by_url else Chain.from_host_settings(self.host)
            plan = evolve(self.options, invite=self.code, stand_in=stands_in(self.host))
            evening = Evening(
                reactor, plan, story, known, chain, self.players, timings=self.timings
            )
            await evening.live()
        except PlayFailed as broken:
            why = broken
        except Failed as broken:  # a file of the host that cannot be read
            why = PlayFailed("host", broken.message)
        finally:
            not_deleted = self.clean_up(story.add)
            why = why or not_deleted
        if why is not None:
            return why
        story.add(
            f"all went well: {self.timings.count} requests and deliveries, nothing failed or lost"
        )
        return None

    def clean_up(self, write: Callable[[str], None]) -> PlayFailed | None:
        """Delete what is left and write a line about it; return the failure, or None.

        A second call deletes nothing and returns the same.
        """
        code, self.code = self.code, None
        players, self.players = self.players, []
        gone, what = 0, "the players' accounts are"
        try:
            if not self.options.keep and self.host.folder is not None:
                gone = clean(self.host, players)
            what = "the invite code is"
            if code is not None:
                drop_invite(self.host, code)
        except Failed as why:
            self.failure = PlayFailed("database", f"{what} still there: {why.message}")
        if gone:
            write(f"{counted(gone, 'account')} and all their data were deleted again")
        return self.failure


def stands_in(host: Host) -> bool:
    """Return whether the host uses the game-server simulator, which answers every datagram."""
    if host.folder is None or not (host.folder / "deploy.env").is_file():
        return True
    program = host.variables("deploy").get("GAMESERVER_BINARY_PATH", "")
    return PurePath(program).name == PurePath(stand_in()).name


def private_url(host: Host) -> str | None:
    """Return the URL of the metagame if the host has no gateway, else None."""
    if host.folder is None or (host.folder / "gateway.env").is_file():
        return None
    metagame = host.variables("metagame")
    return f"http://{metagame.get('BIND_HOST') or '127.0.0.1'}:{metagame.get('PORT', '61000')}"


def make_invite(host: Host, uses: int) -> str:
    """Create an invite code for the session; a host that needs no invites ignores the code."""
    code = rules.new_invite_code()
    invite = rules.InviteCode(code, uses, False)
    database.transact(host, lambda tx: SqlAccounts(tx).put_invite(invite))
    return code


def drop_invite(host: Host, code: str) -> None:
    """Delete the invite code that was created for the session."""
    database.transact(host, lambda tx: SqlAccounts(tx).drop_invite(code))
