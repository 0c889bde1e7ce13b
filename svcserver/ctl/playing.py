"""``svcctl play``: simulated players live an evening on a host, and say whether all went well."""

from __future__ import annotations

import time
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner

from svcserver.ctl import database
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail
from svcserver.ctl.play.broken import Broken
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.evening import MAX_PLAYERS, Evening, Wishes
from svcserver.ctl.play.story import Story
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts


@click.command("play")
@click.option("--players", type=click.IntRange(1, MAX_PLAYERS), default=4, help="How many come.")
@click.option("--hunts", type=click.IntRange(0, 100), default=1, help="Hunts they go on.")
@click.option("--url", metavar="URL", help="The metagame itself, past relay and gateway.")
@click.option("--relay-port", type=click.IntRange(1024, 65000), default=61010, help="First relay.")
@about_a_host
def play(host: Host, out: Out, players: int, hunts: int, url: str | None, relay_port: int) -> None:
    """Live an evening with simulated players; the exit code says whether all went well."""
    wishes = Wishes(players, hunts, url.rstrip("/") if url else None, relay_port)
    why = run(host, out, wishes)
    if why is not None:
        out.data({"ok": False, "link": why.link, "reason": why.seen})
        fail(f"the evening failed at the {why}")
    out.data({"ok": True, "players": players})


def run(host: Host, out: Out, wishes: Wishes) -> Broken | None:
    """Live it, in a reactor of our own; what broke, if anything."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    ended: list[Broken | None] = []

    async def work(reactor: Any) -> None:
        ended.append(await live(reactor, host, out, wishes))

    try:
        react(lambda reactor: Deferred.fromCoroutine(work(reactor)))
    except SystemExit:
        if not ended:
            raise
    return ended[0]


async def live(reactor: Any, host: Host, out: Out, wishes: Wishes) -> Broken | None:
    """Live it on ``reactor``; what broke, if anything."""
    story = Story(out.say, time.monotonic)
    known = host if host.folder is not None else None
    code = None
    try:
        if wishes.url is None and known is None:
            raise Broken("host", "unknown; give --config DIR, or --url of a metagame")
        if known is not None:
            code = make_invite(known, wishes.players)
        chain = Chain.of(known) if known is not None and wishes.url is None else None
        asked = Wishes(wishes.players, wishes.hunts, wishes.url, wishes.relay_port, code)
        await Evening(reactor, asked, story, known, chain).live()
    except Broken as why:
        return why
    finally:
        if known is not None and code is not None:
            drop_invite(known, code)
    story.say("all went well")
    return None


def make_invite(host: Host, uses: int) -> str | None:
    """A code for this evening, where the host wants codes."""
    if host.variables("metagame").get("REGISTRATION_MODE") != "INVITECODE":
        return None
    code = rules.new_invite_code()
    with database.ledger(host) as tx:
        SqlAccounts(tx).put_invite(rules.Invite(code, uses, False))
    return code


def drop_invite(host: Host, code: str) -> None:
    """Take it back."""
    with database.ledger(host) as tx:
        SqlAccounts(tx).drop_invite(code)
