"""All kinds of attacks, briefly, on one host that ``svcctl init`` made and ``svc-stack`` runs.

docs/contributors/attacks.md lists the file that tests each attack in full. This file shows that a
new host's settings are enough against the attacks. Other players wait hardly longer during an
attack than on an idle host.

Real processes are needed because a whole host is attacked.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, field

from svcserver.metagame.access.attempts import TRIES
from tests.chat.sockets import Talker
from tests.ctl.hosts import PATIENCE_S, change, demo_host, read_output, run, stack, value
from tests.live.attacks.support import arrive, figures, median_s, over_tls, waits_s
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.attacks.test_redaction import TARGET
from tests.live.attacks.test_web_pages import pages
from tests.support.processes import ask, bearer, eventually, free_port, register

pytestmark = [pytest.mark.live, pytest.mark.alone]  # measures how long others wait

TIMES_IDLE, FLOOR_S = 15, 0.3  # limits of the median wait: times the idle wait, or seconds
STRANGER, NEWCOMER, PLAYER, THIEF = (f"127.0.6.{number}" for number in range(1, 5))
PAUSE_S = 0.05  # between two newcomers
Reply = tuple[int, bytes]


@define
class Toured:
    """A running host; the test reaches it directly, or through the gateway from any address."""

    folder: Path
    metrics: int
    players: dict[str, dict[str, str]] = field(factory=dict)

    def port(self, component: str, name: str = "PORT") -> int:
        return int(value(self.folder, component, name))

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request to the metagame as the owner does."""
        return ask(self.port("metagame"), method, path, body, headers)

    def player(self, name: str) -> dict[str, str]:
        if name not in self.players:
            self.players[name] = {**register(self, name), "name": name}
        return self.players[name]

    def public(
        self, address: str, method: str, path: str, body: Any = None, **headers: str
    ) -> Reply:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        line = http.client.HTTPSConnection(
            "127.0.0.1",
            self.port("gateway", "GATEWAY_PORT"),
            timeout=60,
            source_address=(address, 0),
            context=context,
        )
        try:
            data = None if body is None else orjson.dumps(body)
            line.request(method, path, data, {"Content-Type": "application/json", **headers})
            reply = line.getresponse()
            return reply.status, reply.read()
        finally:
            line.close()

    def newcomer_s(self) -> float:
        """Return how many seconds a newcomer waits for a first reply."""
        began = time.monotonic()
        status, _ = self.public(NEWCOMER, "GET", "/svc/api/ServerStatus")
        assert status == 200
        return time.monotonic() - began

    def unharmed(self, attack: Callable[[], object]) -> None:
        """Assert that other players wait little longer during the attack than on an idle host."""
        idle = median_s(self.newcomer_s)
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(attack)
            waits = sorted(waits_s(self.newcomer_s, lambda: not running.done(), 1, PAUSE_S))
            running.result()
        middle = waits[len(waits) // 2]
        assert middle < max(TIMES_IDLE * idle, FLOOR_S), (idle, waits)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toured]:
    """Start a host with the settings of a new host, and with metrics enabled."""
    folder = demo_host(tmp_path_factory.mktemp("tour") / "host")
    metrics = free_port()
    change(folder, "gateway", "METRICS_PORT", str(metrics))
    change(folder, "deploy", "METRICS_PORT", str(free_port()))
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)
        yield Toured(folder, metrics)


def test_targets_full_of_tokens_cost_nobody_else_anything(host: Toured) -> None:
    def attack() -> None:
        with ThreadPoolExecutor(6) as crowd:
            list(crowd.map(lambda _: host.public(STRANGER, "GET", TARGET.decode()), range(60)))

    host.unharmed(attack)


def test_a_refused_admin_request_raises_the_refusals_metric(host: Toured) -> None:
    series = 'svc_gateway_refusals_total{reason="admin_route"}'
    before = figures(host.metrics).get(series, 0.0)
    assert host.public(STRANGER, "GET", "/svc/api/InviteCodes")[0] == 403
    assert figures(host.metrics)[series] == before + 1


def test_a_players_hoard_ends_and_its_reads_wait_for_one_another(host: Toured) -> None:
    ann = host.player("Ann_1")
    signed = bearer(ann)
    character = orjson.loads(host.public(PLAYER, "GET", "/character", **signed)[1])[0]["id"]

    def add(first: int) -> int:
        stacks = [{"catalogId": f"ITEM_{first + n}", "quantity": 1} for n in range(2_000)]
        body = {"characterId": character, "addStackedItems": stacks}
        return host.public(PLAYER, "POST", "/inventory", body, **signed)[0]

    assert [add(2_000 * number) for number in range(11)] == [200] * 10 + [409]

    def read(_: int) -> int:
        return host.public(PLAYER, "GET", f"/inventory/{ann['id']}/{character}", **signed)[0]

    def attack() -> None:
        with ThreadPoolExecutor(8) as crowd:
            assert set(crowd.map(read, range(24))) <= {200, 429}

    host.unharmed(attack)


def test_one_player_starts_one_game_server(host: Toured) -> None:
    signed = bearer(host.player("Greedy_1"))
    for _ in range(6):
        assert host.public(PLAYER, "POST", "/candidate/join", TUTORIAL, **signed)[0] == 200

    def placed() -> bool:
        status = host.public(PLAYER, "GET", "/candidate/status", **signed)[1]
        return "serverInfo" in orjson.loads(status)

    eventually(placed)
    # other launches were requested before this one was ready; they run or wait
    listed = orjson.loads(ask(host.port("deploy"), "GET", "/gameservers")[1])["servers"]
    assert sum(server["kind"] != "city" for server in listed) == 1
    assert figures(host.port("deploy", "METRICS_PORT"))["svc_deploy_launches_waiting"] == 0


def test_web_pages_cannot_reach_services_that_trust_this_machine(host: Toured) -> None:
    for component, path, variable in (
        ("deploy", "/gameservers", "PORT"),
        ("metagame", "/svc/dashboard", "PORT"),
        ("allowlist", "/status", "ALLOWLIST_PORT"),
        ("gateway", "/metrics", "METRICS_PORT"),
    ):
        port = host.port(component, variable)
        for name, sent in pages(port).items():
            assert ask(port, "GET", path, None, sent)[0] == 403, (component, name)


def test_bad_tokens_in_a_players_name_lock_nobody_out_of_the_chat(host: Toured) -> None:
    bob = host.player("Bob_1")

    def connect(address: str) -> Talker:
        secret = value(host.folder, "gateway", "GATEWAY_SECRET")
        vouched = f"X-Svc-Gateway: {secret}\r\nX-Forwarded-For: {address}\r\n"
        return Talker(host.port("metagame", "CHAT_PORT"), bob["id"], bob["name"], more=vouched)

    for number in range(12):
        stranger = connect(f"2001:db8:0:{number}::1")
        stranger.try_token("no.such.token")
        stranger.wire.close()
    player = connect("203.0.113.9").log_in(bob["token"])
    player.wire.close()


def test_idle_connections_keep_no_newcomer_out(host: Toured) -> None:
    with ExitStack() as held:
        let_in = 0
        for number in range(160):
            raw = arrive(host.port("gateway", "GATEWAY_PORT"), f"127.0.7.{number % 4 + 1}")
            with suppress(OSError):  # the gateway may refuse so many connections of one network
                held.enter_context(over_tls(raw))
                let_in += 1
        assert let_in >= 40
        host.unharmed(lambda: time.sleep(1))


def test_a_new_account_key_revokes_the_old_token(host: Toured) -> None:
    cat = host.player("Cat_1")
    assert host.public(THIEF, "GET", "/accountinfo", **bearer(cat))[0] == 200
    ran = run("account", "new-key", cat["name"], "--config", host.folder)
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: host.public(THIEF, "GET", "/accountinfo", **bearer(cat))[0] == 401, 1.0)


def test_guesses_of_admin_keys_are_throttled(host: Toured) -> None:
    replies = [
        host.ask("GET", "/svc/api/InviteCodes", None, {"x-svc-user-api-key": f"UUK_{number:048x}"})
        for number in range(TRIES + 5)
    ]
    assert [status for status, _ in replies].count(429) >= 5


def test_settings_keys_and_databases_are_private_to_the_owner(host: Toured) -> None:
    host.player("Ann_1")
    public = {"gateway-cert.pem"}  # players pin the public certificate
    secret = [*host.folder.rglob("*.env"), *host.folder.rglob("*.pem"), *host.folder.rglob("*.db*")]
    assert len(secret) > 6
    for path in secret:
        if path.name not in public:
            assert not path.stat().st_mode & 0o077, path
