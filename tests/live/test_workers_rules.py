"""Account rules (token epochs, staff roles, lockouts, launches) that every worker must enforce.

Real processes are needed because two metagames in one process would share memory.
"""

import signal
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.chat.admission import FAILURES
from tests.chat.sockets import Talker
from tests.ctl.command import svcctl
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.deploying import SIMULATOR, deploy, program
from tests.live.test_workers import chatting, sabotaged, send_request, talkers, workers
from tests.support.processes import Service, bearer, env_file, eventually, register
from tests.support.valkey import fresh_url
from tests.support.watch import Watch

pytestmark = pytest.mark.live

AT_MOST_S = 2.0


def status_of(service: Service, player: dict[str, str]) -> int:
    """Return the status of a request by a logged-in player."""
    return service.ask("GET", "/accountinfo", headers=bearer(player))[0]


def test_sessions_that_one_worker_ends_are_over_at_the_other_at_once(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path))
        (_, _), (bob, bobs) = talkers(stack, both, ports, 2)
        cleo = register(both.first, "Cleo")
        ran = svcctl(
            "account", "promote", "Cleo", "--env-file", env_file(tmp_path, both.first.environ)
        )
        assert ran.status == 0, ran.err
        owner = {"x-svc-user-api-key": cleo["key"]}
        with Watch() as watch:
            kick = "/svc/api/DashboardKick", {"Account": "Player_1"}
            status, body = both.first.ask("POST", *kick, owner)
            assert status == 200, body
            # the other worker was notified before the kick was answered
            assert status_of(both.second, bob) == 401
            assert "not-authorized" in bobs.hear("stream:error")
        assert watch.seconds < AT_MOST_S
        assert status_of(both.first, bob) == 401
        again = Talker(ports[0], bob["id"], "Player_1")
        stack.callback(again.wire.close)
        assert "<failure" in again.try_token(bob["token"])


def test_the_owners_ban_and_mute_reach_every_worker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path, CHAT_MESSAGE_RATE="60,60"))
        (ann, anns), (bob, bobs) = talkers(stack, both, ports, 2)
        file = env_file(tmp_path, both.first.environ)
        for entry in (anns, bobs):
            assert 'code="110"' in entry.join("City-1")
        for name in ("Player_0", "Player_1"):
            assert svcctl("mute", name, "--env-file", file).status == 0

        def refused(talker: Talker) -> bool:
            talker.say("City-1", "hello")
            return "not-acceptable" in talker.hear('id="m')

        for entry in (anns, bobs):
            eventually(lambda talker=entry: refused(talker), AT_MOST_S)
        for name in ("Player_0", "Player_1"):
            assert svcctl("ban", name, "--env-file", file).status == 0
        for entry in (anns, bobs):
            entry.hear("stream:error")
        for service in (both.first, both.second):
            for player in (ann, bob):
                eventually(lambda s=service, p=player: status_of(s, p) == 401, AT_MOST_S)


def first_told(service: Service, page: str, key: dict[str, str]) -> Any:
    """Return the first event that the server sends for a dashboard page."""
    with closing(HTTPConnection("127.0.0.1", service.port, timeout=30)) as request:
        head = {**key, "Accept": "text/event-stream"}
        request.request("GET", f"/svc/api/DashboardEvents?page={page}", headers=head)
        for line in request.getresponse():
            if line.startswith(b"data: "):
                return orjson.loads(line.removeprefix(b"data: "))
    raise AssertionError("it was told nothing")


def test_owners_see_and_reach_the_players_of_every_worker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path))
        result = talkers(stack, both, ports, 2)
        for _, item in result:
            assert 'code="110"' in item.join("City-1")
        file, olga = env_file(tmp_path, both.first.environ), register(both.first, "Olga")
        assert svcctl("account", "promote", "Olga", "--env-file", file).status == 0
        key = {"x-svc-user-api-key": olga["key"]}
        for number, service in enumerate((both.first, both.second)):
            player = result[number][0]
            assert service.ask("POST", "/heartbeat", {}, bearer(player))[0] == 200
        for service in (both.first, both.second):
            reply = first_told(service, "chat", key)
            assert (reply["connections"], reply["people"]) == (2, 2)
            assert reply["rooms"][0]["names"] == ["Player_0", "Player_1"]
            reply = orjson.loads(service.ask("GET", "/svc/api/ServerStatus", headers=key)[1])
            assert [player["name"] for player in reply["players"]] == ["Player_0", "Player_1"]
        assert svcctl("announce", "Hunt night", "--env-file", file).status == 0
        for _, item in result:
            assert "Hunt night" in item.hear("<body>")
        for service in (both.first, both.second):  # each worker has read the announcement by itself
            eventually(lambda s=service: b"Hunt night" in s.ask("GET", "/svc-status")[1])
        for number, (_, item) in enumerate(result):
            item.say("City-1", f"line {number}")
            for second in range(number + 1):
                assert f"line {second}" in item.hear("<body>")


def test_a_new_name_shows_at_every_worker_at_once(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url()) as both:
        ann, olga = register(both.first, "Ann_1"), register(both.first, "Olga")
        file = env_file(tmp_path, both.first.environ)
        assert svcctl("account", "promote", "Olga", "--env-file", file).status == 0
        key = {"x-svc-user-api-key": olga["key"]}

        def shown(service: Service) -> bytes:
            status, body = service.ask("POST", "/party", {}, bearer(ann))
            assert status == 200
            return body

        for service in (both.first, both.second):
            assert b"Ann_1" in shown(service)  # and each worker caches the account from now on
        request = {"UserId": ann["id"], "NewUsername": "Ada_1"}
        assert both.first.ask("POST", "/svc/api/RenameUser", request, key)[0] == 200
        for service in (both.first, both.second):
            eventually(lambda s=service: b"Ada_1" in shown(s), AT_MOST_S)
        assert b"Ann_1" not in shown(both.first) + shown(both.second)


def test_a_lockout_holds_at_every_worker(tmp_path: Path) -> None:
    with ExitStack() as stack:
        both, ports = stack.enter_context(chatting(tmp_path, LOG_LEVEL="info"))
        ann = register(both.first, "Ann_1")

        def failed(port: int) -> str:
            talker = Talker(port, ann["id"], "Ann_1")
            stack.callback(talker.wire.close)
            return talker.try_token("no.token.at-all")

        for number in range(FAILURES.limit):
            assert "not-authorized" in failed(ports[number % 2])
        for port in ports:
            assert "temporary-auth-failure" in failed(port)
        valid = Talker(ports[1], ann["id"], "Ann_1")  # failures never keep a valid token out
        stack.callback(valid.wire.close)
        valid.log_in(ann["token"])


NO_MATCH_ID = """
from svcserver.metagame.play.deploy_client import DeployClient
plain = DeployClient.launch
DeployClient.launch = lambda self, request, match_id: plain(self, request)
"""


def hunts(server: Service) -> int:
    """Return how many hunts the deploy server lists."""
    listed = orjson.loads(server.ask("GET", "/gameservers")[1])["servers"]
    return sum(entry["kind"] == "tutorial" for entry in listed)


def held(folder: Path, gate: Path) -> dict[str, str]:
    """Return settings that make every launch wait until the file ``gate`` exists."""
    (folder / "proofs").mkdir()
    waiting = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    binary = program(folder, "waits", waiting, f'exec {SIMULATOR} "$@"')
    return {"GAMESERVER_BINARY_PATH": binary, "GAMESERVER_READY_DIR": str(folder / "proofs")}


def servers_after_death(folder: Path, **sabotage: str) -> int:
    """Kill the worker that requested a game server while the server starts.

    The other worker repeats the request. Return how many game servers the match has in the end.
    """
    (folder / "deploy").mkdir()
    gate = folder / "enough"
    with ExitStack() as stack:
        server = stack.enter_context(deploy(folder / "deploy", **held(folder / "deploy", gate)))
        there = {"MATCHMAKING_MODE": "DEPLOYSERVER", "DEPLOYSERVER_URL": f"127.0.0.1:{server.port}"}
        both = stack.enter_context(workers(folder, fresh_url(), **there, **sabotage))
        ann = register(both.first, "Ann_1")
        joining = stack.enter_context(closing(HTTPConnection("127.0.0.1", both.first.port)))
        head = {**bearer(ann), "Content-Type": "application/json"}
        joining.request("POST", "/candidate/join", orjson.dumps(TUTORIAL), head)
        eventually(lambda: hunts(server) == 1)  # while the answer waits for the launch
        both.first.stop(signal.SIGKILL)

        def placed() -> object:
            return (send_request(both.second, "GET", "/candidate/status", ann)[1] or {}).get(
                "serverInfo"
            )

        def asked_again() -> bool:
            assert not placed(), "a launch was over that cannot be"
            return server.log.count("Handling matchmaking") == 2

        eventually(asked_again, 60)
        gate.touch()
        eventually(placed, 60)
        return hunts(server)


# slow: another takes over fifteen seconds after the death
def test_a_worker_that_dies_asking_leaves_one_server_a_match(tmp_path: Path) -> None:
    assert servers_after_death(tmp_path) == 1


# slow: as above
def test_a_match_gets_two_servers_if_requests_do_not_name_it(tmp_path: Path) -> None:
    """Check that a match gets two game servers if launch requests do not name the match."""
    assert servers_after_death(tmp_path, **sabotaged(NO_MATCH_ID)) == 2
