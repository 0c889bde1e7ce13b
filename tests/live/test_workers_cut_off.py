"""A worker is cut off from the engine for a while: who sits in a room there hears every line later.

Why processes: two metagames in one process would share its memory.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chat.sockets import Talker
from tests.live.test_engine_away import Proxy
from tests.live.test_workers import sabotaged
from tests.support.postgres import fresh_database
from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.valkey import fresh_url, shared

pytestmark = pytest.mark.live
ROOM, LOST = "City-1", "the connection to the engine of LIVE_URL is lost"
LINES = 8


def chat(stack: ExitStack, folder: Path, live_url: str, **environ: str) -> tuple[Service, int]:
    """A metagame with a chat, and the chat's port."""
    folder.mkdir()
    port = free_port()
    more = {"CHAT": "1", "CHAT_PORT": str(port), "CHAT_MESSAGE_RATE": "100,100", **environ}
    made = stack.enter_context(metagame(folder, LIVE_URL=live_url, **more))
    eventually(lambda: "chat: listening on" in made.log)
    return made, port


def heard(folder: Path, **environ: str) -> list[str]:
    """What one hears, whose worker was cut off, of lines that another is told of; the last is new.

    Half of them are said before the worker notices, half of them after it.
    """
    with ExitStack() as stack:
        database, live_url = {"DATABASE_URL": fresh_database()}, fresh_url()
        proxy = Proxy(shared().port)
        stack.callback(proxy.end)
        one, near = chat(stack, folder / "one", live_url, **database)
        away = live_url.replace(f":{shared().port}/", f":{proxy.port}/")
        other, far = chat(stack, folder / "other", away, **database, **environ)
        talkers = []
        for name, port in (("Ann_1", near), ("Bob_1", far)):
            player = register(one, name)
            made = Talker(port, player["id"], name)
            stack.callback(made.wire.close)
            made.log_in(player["token"])
            assert 'code="110"' in made.join(ROOM)
            talkers.append(made)
        ann, bob = talkers

        def say(text: str) -> None:
            ann.say(ROOM, text)
            assert text in ann.hear("<body>")

        proxy.cut()
        for number in range(LINES):
            if number == LINES // 2:
                eventually(lambda: LOST in other.log)
            say(f"line {number}")
        proxy.mend()
        eventually(lambda: other.log.count("is back after") >= 2)  # it asks, and it listens
        say("the last")
        found: list[str] = []
        while "the last" not in "".join(found[-1:]):
            found.append(bob.hear("<body>").partition("<body>")[2].partition("<")[0])
        return found


def test_who_sits_at_a_worker_that_was_cut_off_hears_every_line_in_order(tmp_path: Path) -> None:
    assert heard(tmp_path) == [*(f"line {number}" for number in range(LINES)), "the last"]


FORGETS = "from svcserver.board import news\nnews.NewsFeed._since = lambda self, lately: None\n"


# slow: what is sabotaged starts as an owner's does, for a change of ours
def test_where_the_worker_reads_nothing_of_what_it_missed_lines_are_lost(tmp_path: Path) -> None:
    """The sabotage: what the test above rests on."""
    assert heard(tmp_path, **sabotaged(tmp_path, FORGETS)) == ["the last"]
