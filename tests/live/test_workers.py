"""Two metagames with equal keys, one database and one engine, which act as one game.

Real processes are needed because two metagames in one process would share memory.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import frozen

from tests.chat.sockets import Talker
from tests.support.postgres import fresh_database
from tests.support.prestarted import CHANGE
from tests.support.processes import Service, bearer, eventually, free_port, metagame, register
from tests.support.valkey import fresh_url
from tests.support.watch import Watch

pytestmark = pytest.mark.live


@frozen
class Workers:
    """Two metagame processes."""

    first: Service
    second: Service


@contextmanager
def workers(folder: Path, live_url: str, **environ: str) -> Iterator[Workers]:
    """Run two metagame processes."""
    shared = {"DATABASE_URL": fresh_database(), "LIVE_URL": live_url, **environ}
    with ExitStack() as stack:
        made = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            made.append(stack.enter_context(metagame(folder / name, **shared)))
        yield Workers(*made)


def send_request(
    service: Service, method: str, path: str, by: dict[str, str], body: Any = None
) -> Any:
    """Send a player's request; return the status and the parsed body."""
    status, reply = service.ask(method, path, body, headers=bearer(by))
    return status, orjson.loads(reply) if reply[:1] in b"{[" else reply


def test_a_party_and_the_online_count_span_two_processes(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url()) as both:
        ann, bob = register(both.first, "Ann_1"), register(both.second, "Bob_1")
        _, mine = send_request(both.first, "POST", "/party", ann, {})
        request = {"recipientPlayerId": bob["id"]}
        assert send_request(both.first, "PUT", "/party/invite", ann, request)[0] == 200
        _, view = send_request(both.second, "GET", "/party/invites", bob)
        assert [invitation["partyId"] for invitation in view["invitations"]] == [mine["partyId"]]
        accept = f"/party/invite/accept/{mine['partyId']}"
        status, joined = send_request(both.second, "PUT", accept, bob, {})
        assert status == 200
        assert joined["partyId"] == mine["partyId"]
        assert (
            send_request(both.first, "POST", "/party", ann, {})[1]
            == send_request(both.second, "POST", "/party", ann, {})[1]
        )
        assert send_request(both.first, "POST", "/heartbeat", ann, {})[0] == 200
        key = {"x-svc-user-api-key": ann["key"]}
        status, body = both.second.ask("GET", "/svc/api/PublicOnlineStats", headers=key)
        assert (status, orjson.loads(body)) == (200, {"NumActivePlayers": 1})


@contextmanager
def chatting(folder: Path, **environ: str) -> Iterator[tuple[Workers, tuple[int, int]]]:
    """Run two metagames with chat; yield them with their chat ports."""
    ports = free_port(), free_port()
    shared = {"DATABASE_URL": fresh_database(), "LIVE_URL": fresh_url(), "CHAT": "1", **environ}
    with ExitStack() as stack:
        made = []
        for name, port in zip(("one", "other"), ports, strict=True):
            (folder / name).mkdir()
            entered = stack.enter_context(metagame(folder / name, CHAT_PORT=str(port), **shared))
            made.append(entered)
            eventually(lambda entry=entered: "chat: listening on" in entry.log)
        yield Workers(*made), ports


def talkers(
    stack: ExitStack, both: Workers, ports: tuple[int, int], count: int
) -> list[tuple[dict[str, str], Talker]]:
    """Connect players alternately to the first and the second process."""
    results = []
    for number in range(count):
        player = register(both.first, f"Player_{number}")
        made = Talker(ports[number % 2], player["id"], f"Player_{number}")
        stack.callback(made.wire.close)
        results.append((player, made.log_in(player["token"])))
    return results


@contextmanager
def frozen(both: Workers) -> Iterator[None]:
    """Suspend both processes until the block ends; they then read what was sent meanwhile."""
    processes = [
        service.process for service in (both.first, both.second) if service.process is not None
    ]
    for item in processes:
        item.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for item in processes:
            item.send_signal(signal.SIGCONT)


LINES = 15  # of each player


def collect_lines(folder: Path, **environ: str) -> list[list[str]]:
    """Let four players send lines at the same moment; return the lines that each received."""
    often = {"CHAT_MESSAGE_RATE": "1000,1000"}
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(folder, **often, **environ))
        people = [talker for _, talker in talkers(stack, both, ports, 4)]
        for talker in people:
            assert 'code="110"' in talker.join("City-1")
        with frozen(both):  # otherwise a fast machine may finish each line before the next one
            for number in range(LINES):
                for talker in people:
                    talker.say("City-1", f"line {number}")
        results = []
        for talker in people:
            mine = [talker.hear("<body>") for _ in range(LINES * len(people))]
            assert len(set(mine)) == len(mine)
            results.append([text.partition("/")[2] for text in mine])
        return results


def test_every_occupant_of_a_room_gets_the_lines_in_one_order(tmp_path: Path) -> None:
    result = collect_lines(tmp_path)
    assert all(them == result[0] for them in result)


# Each process delivers its own lines at once, and the other's lines after the last of its own:
# otherwise both orders are the same if one process has nothing to do until the other has finished.
HEARD_AT_ONCE = f"""
from svcserver.chat import workers
own, others = [], []
plain, tell = workers.Workers._on_said, workers.Workers.broadcast_line
def say(self, occupant, stanza_id, body, deaf):
    session, key = occupant.session, occupant.room.key
    plain(self, workers.Said(self.name, session.number, key, stanza_id, body, tuple(deaf)))
    own.append(body)
    while len(own) >= {2 * LINES} and others:
        plain(self, others.pop(0))
    return tell(self, occupant, stanza_id, body, deaf)
def on_said(self, news):
    if news.worker == self.name:
        self._pending.resolve(news, is_delivered=True)
    elif len(own) < {2 * LINES}:
        others.append(news)
    else:
        plain(self, news)
workers.Workers.broadcast_line, workers.Workers._on_said = say, on_said
"""
NO_LEASE = "from svcserver.chat import leases\nleases.LEASE_S = 1e9\n"


def sabotaged(change: str) -> dict[str, str]:
    """Return the environment in which each service runs the code ``change`` when it starts.

    The code runs after all imports. If a module imported a name with ``from``, the code must change
    the name in that module.
    """
    return {CHANGE: change}


def test_chat_order_differs_if_workers_deliver_lines_at_once(tmp_path: Path) -> None:
    """Check that players see different orders if each process delivers its lines immediately."""
    result = collect_lines(tmp_path, **sabotaged(HEARD_AT_ONCE))
    assert all(sorted(them) == sorted(result[0]) for them in result)
    assert any(them != result[0] for them in result)


def test_a_party_room_admits_only_members_across_processes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path))
        (ann, anns), (bob, bobs) = talkers(stack, both, ports, 2)
        _, mine = send_request(both.first, "POST", "/party", ann, {})
        room = f"Party-{mine['partyId']}"
        assert 'code="110"' in anns.join(room)
        assert 'type="error"' in bobs.join(room)
        send_request(both.first, "PUT", "/party/invite", ann, {"recipientPlayerId": bob["id"]})
        send_request(both.second, "PUT", f"/party/invite/accept/{mine['partyId']}", bob, {})
        assert 'code="110"' in bobs.join(room)
        bobs.say(room, "here I am")
        assert "here I am" in anns.hear("<body>")
        send_request(both.first, "DELETE", f"/party/member/{bob['id']}", ann)
        assert 'code="307"' in bobs.hear('code="307"')


def invites(both: Workers, ann: dict[str, str]) -> int:
    """Send and withdraw 40 party invites, at each process in turn; return how many succeeded."""
    others = [register(both.first, f"Other_{number}") for number in range(40)]
    send_request(both.first, "POST", "/party", ann, {})
    statuses = []
    for number, friend in enumerate(others):
        service = both.first if number % 2 else both.second
        request = {"recipientPlayerId": friend["id"]}
        statuses.append(send_request(service, "PUT", "/party/invite", ann, request)[0])
        send_request(service, "DELETE", "/party/invite", ann, request)
    return statuses.count(200)


def test_without_shared_live_state_the_rules_count_twice(tmp_path: Path) -> None:
    """Check that the test below would fail without shared live state."""
    with workers(tmp_path, "memory:") as both:
        assert invites(both, register(both.first, "Ann_1")) == 40


def test_the_rules_of_an_account_hold_across_processes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path))
        ann = register(both.first, "Ann_1")
        assert invites(both, ann) == 20
        seats = []
        for number in range(3):
            talker = Talker(ports[number % 2], ann["id"], "Ann_1", f"V2:Word:WIN::{number:032x}")
            stack.callback(talker.wire.close)
            seats.append(talker.log_in(ann["token"]))
        seats[0].hear("<close")
        # the connection still exists
        seats[2].whisper(register(both.first, "Bob_1")["id"], "to nobody")


AT_MOST_S = 15.0


# slow: fifteen seconds is what it promises
def test_players_of_a_killed_worker_are_free_within_15_s(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path))
        (_, anns), (bob, bobs) = talkers(stack, both, ports, 2)
        for player in (anns, bobs):
            assert 'code="110"' in player.join("City-1")
        both.second.stop(signal.SIGKILL)
        with Watch() as watch:
            statuses = [send_request(both.first, "POST", "/party", bob, {})[0] for _ in range(20)]
            anns.hear('type="unavailable"')
        assert watch.seconds < AT_MOST_S
        assert set(statuses) == {200}
        assert send_request(both.first, "POST", "/heartbeat", bob, {})[0] == 200


# slow: longer than the fifteen seconds of a lease
def test_without_a_lease_a_dead_process_holds_its_seats(tmp_path: Path) -> None:
    """Check that the test above fails if leases never expire."""
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path, **sabotaged(NO_LEASE)))
        (_, anns), (_, bobs) = talkers(stack, both, ports, 2)
        for player in (anns, bobs):
            assert 'code="110"' in player.join("City-1")
        both.second.stop(signal.SIGKILL)
        anns.wire.settimeout(AT_MOST_S)
        with pytest.raises(TimeoutError):
            anns.hear('type="unavailable"')
