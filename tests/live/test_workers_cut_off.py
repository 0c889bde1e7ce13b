"""A worker that temporarily loses the engine: its players receive missed lines later.

Real processes are needed because two metagames in one process would share memory.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from svcserver.chat.leases import LEASE_S
from tests.chat.sockets import Talker
from tests.live.test_engine_away import Proxy
from tests.live.test_workers import sabotaged
from tests.support.postgres import fresh_database
from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.valkey import PASSWORD, Instance, fresh_url, shared

pytestmark = pytest.mark.live
ROOM, CONNECTION_LOST = "City-1", "the connection to the live-state server at LIVE_URL was lost"
MISSED = "this process may have missed events of other processes"
LINES = 8
# no lease expires during the test, however slow the machine is
PATIENT = f"from svcserver.chat import leases\nleases.LEASE_S = {50 * LEASE_S}\n"


def chat(stack: ExitStack, folder: Path, live_url: str, **environ: str) -> tuple[Service, int]:
    """Run a metagame with chat; yield it with the chat's port."""
    folder.mkdir()
    port = free_port()
    more = {"CHAT": "1", "CHAT_PORT": str(port), "CHAT_MESSAGE_RATE": "100,100", **environ}
    made = stack.enter_context(metagame(folder, LIVE_URL=live_url, **more))
    eventually(lambda: "chat: listening on" in made.log)
    return made, port


def talkers(stack: ExitStack, service: Service, *ports: int) -> list[Talker]:
    """Connect players to one room at the chats on these ports."""
    results = []
    for name, port in zip(("Ann_1", "Bob_1"), ports, strict=True):
        player = register(service, name)
        made = Talker(port, player["id"], name)
        stack.callback(made.wire.close)
        made.log_in(player["token"])
        assert 'code="110"' in made.join(ROOM)
        results.append(made)
    return results


def collect_lines(folder: Path, change: str = "") -> list[str]:
    """Cut off a player's worker while lines are sent; return the lines that the player receives.

    Half of the lines are sent before the worker notices, the other half afterwards.
    """
    with ExitStack() as stack:
        live_url = fresh_url()
        environ = {"DATABASE_URL": fresh_database(), **sabotaged(PATIENT + change)}
        proxy = Proxy(shared().port)
        stack.callback(proxy.end)
        first, near = chat(stack, folder / "one", live_url, **environ)
        away = live_url.replace(f":{shared().port}/", f":{proxy.port}/")
        second, far = chat(stack, folder / "other", away, **environ)
        ann, bob = talkers(stack, first, near, far)

        def say(text: str) -> None:
            ann.say(ROOM, text)
            assert text in ann.hear("<body>")

        proxy.cut()
        for number in range(LINES):
            if number == LINES // 2:
                eventually(lambda: CONNECTION_LOST in second.log)
            say(f"line {number}")
        # a live connection would still receive lines in transit
        eventually(lambda: both_lost(second))
        proxy.mend()
        eventually(lambda: both_back(second))
        say("the last")
        return until_the_last(bob)


def both_lost(service: Service) -> bool:
    """Return whether the worker has given up both connections to the engine."""
    return service.log.count(CONNECTION_LOST) >= 2


def both_back(service: Service) -> bool:
    """Return whether both connections work again."""
    return service.log.count("is connected again after") >= 2


def until_the_last(talker: Talker) -> list[str]:
    """Return the lines that a player receives from now on, up to the last line that was sent."""
    results: list[str] = []
    while "the last" not in "".join(results[-1:]):
        results.append(talker.hear("<body>").partition("<body>")[2].partition("<")[0])
    return results


# slow: a worker gives up both connections to the engine, and has both back
def test_players_of_a_cut_off_worker_get_every_line_in_order(tmp_path: Path) -> None:
    assert collect_lines(tmp_path) == [*(f"line {number}" for number in range(LINES)), "the last"]


FORGETS = "from svcserver.board import news\nnews.NewsFeed._since = lambda self, lately: None\n"


# slow: as above
def test_a_worker_that_reads_no_missed_lines_loses_them(tmp_path: Path) -> None:
    """Check that the test above fails if a worker does not read missed lines."""
    assert collect_lines(tmp_path, FORGETS) == ["the last"]


def heard_anew(folder: Path, change: str = "") -> list[str]:
    """Restart the engine without its data while a player's worker is cut off.

    Send lines after the restart and before the worker reconnects. Return the lines that the player
    receives.
    """
    with ExitStack() as stack:
        engine = Instance.make()
        stack.callback(engine.end)
        engine.start()
        proxy = Proxy(engine.port)
        stack.callback(proxy.end)
        environ = {"DATABASE_URL": fresh_database(), **sabotaged(PATIENT + change)}
        first, near = chat(stack, folder / "one", engine.url, **environ)
        away = f"valkey://:{PASSWORD}@127.0.0.1:{proxy.port}"
        second, far = chat(stack, folder / "other", away, **environ)
        ann, bob = talkers(stack, first, near, far)

        def say(text: str) -> None:
            ann.say(ROOM, text)
            assert text in ann.hear("<body>")

        say("before")
        assert "before" in bob.hear("<body>")
        proxy.cut()
        engine.kill()
        eventually(lambda: CONNECTION_LOST in first.log)
        engine.start()
        eventually(lambda: MISSED in first.log)  # the worker listens, and has found no missed lines
        say("early")
        say("next")
        assert not both_back(second)
        proxy.mend()
        eventually(lambda: both_back(second))
        say("the last")
        return until_the_last(bob)


# slow: the same, and the engine restarts
def test_players_of_a_late_worker_get_every_line_of_a_new_engine(tmp_path: Path) -> None:
    assert heard_anew(tmp_path) == ["early", "next", "the last"]


# slow: the same, and the engine restarts
def test_lines_are_lost_if_a_worker_ignores_an_engine_restart(tmp_path: Path) -> None:
    """Check that the test above fails if a worker does not recognise a new engine."""
    forgets = "from svcserver.board import news\nnews.NewsFeed._anew = lambda self, lately: []\n"
    assert heard_anew(tmp_path, forgets) == ["the last"]
