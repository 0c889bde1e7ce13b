"""The fleet's listener and a node's agent, with real TLS and real processes."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from svcserver.edge.nodes import FleetFolder
from tests.live.fleet_host import ADDRESS, KEY, NODE, FleetHost, agent, ask, fleet_host, node
from tests.support.processes import Service, bearer, eventually, free_port, register

pytestmark = pytest.mark.live

SECRET = "s" * 40


def test_only_nodes_of_the_fleet_get_an_answer(tmp_path: Path) -> None:
    with fleet_host(tmp_path) as host:
        ours = host.issue()
        player = host.player_in_hunt("Ann_1")
        path = f"/progression/{player['id']}"
        eventually(lambda: host.deploy.match)
        with node(host, tmp_path, ours) as wire:
            assert ask(wire, "POST", path)[0] == 200
        stranger = FleetFolder(tmp_path / "stranger")
        theirs = stranger.issue(NODE, ADDRESS, "127.0.0.1", host.port)
        for credential in (None, theirs):
            assert is_refused(host, tmp_path, credential)
        host.issue()  # a new certificate revokes the one before
        assert is_refused(host, tmp_path, ours)


def is_refused(host: FleetHost, folder: Path, credential: bytes | None) -> bool:
    """Return whether the listener closes the connection without an answer."""
    with node(host, folder, credential) as wire:
        try:
            ask(wire, "POST", "/progression/UID-x")
        except OSError:
            return True
        return False


def test_a_revoked_node_is_out_within_a_second(tmp_path: Path) -> None:
    with fleet_host(tmp_path) as host:
        ours = host.issue()
        with (
            node(host, tmp_path, ours) as idle,
            node(host, tmp_path, ours) as polling,
            node(host, tmp_path, ours) as sending,
        ):
            polling.request("POST", "/svc/node/orders", b'{"done":[],"helper":true}')
            sending.putrequest("POST", "/svc/node/orders")
            sending.putheader("Content-Length", "100000")
            sending.endheaders(b'{"done":[')
            # when this request is answered, both requests have arrived
            ask(idle, "POST", "/progression/UID-x")
            host.fleet.revoke(NODE)
            began = time.monotonic()
            for wire in (idle, polling, sending):
                assert is_cut(wire)
            assert time.monotonic() - began < 1.5
        assert is_refused(host, tmp_path, ours)


def is_cut(wire: http.client.HTTPConnection) -> bool:
    """Return whether the listener closes the connection without a further byte."""
    try:
        return wire.sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_unlisted_addresses_get_no_answer(tmp_path: Path) -> None:
    with fleet_host(tmp_path, GAMESERVER_ALLOW_FROM="203.0.113.7") as host:
        assert is_refused(host, tmp_path, host.issue())


def test_game_servers_reach_the_host_through_their_agent(tmp_path: Path) -> None:
    with fleet_host(tmp_path) as host, agent(host, tmp_path) as relay:
        ann, eve = host.player_in_hunt("Ann_1"), register(host.metagame, "Eve_1")
        eventually(lambda: host.deploy.match)

        def grant(player: dict[str, str], key: str) -> int:
            headers = {"x-svc-gameserver-apikey": key}
            return relay.ask("POST", f"/progression/{player['id']}", {}, headers)[0]

        assert grant(ann, KEY) == 200
        assert (grant(eve, KEY), grant(ann, "b" * 64)) == (403, 401)
        orders = {"done": [], "helper": True}
        assert relay.ask("POST", "/svc/node/orders", orders)[0] == 403
        host.deploy.match = ""  # the hunt has ended
        assert grant(ann, KEY) == 401
        host.fleet.revoke(NODE)
        eventually(lambda: grant(ann, KEY) == 502)


@contextmanager
def helper(folder: Path) -> Iterator[Service]:
    """Run an allowlist helper that changes no firewall."""
    port = free_port()
    settings = {
        "ALLOWLIST_SECRET": SECRET,
        "ALLOWLIST_PORT": str(port),
        "ALLOWLIST_DRY_RUN": "1",
        "ALLOWLIST_BACKEND": "none",
        "ALLOWLIST_MIN_INTERVAL_MS": "100",  # as on the machines of a fleet
    }
    service = Service("svc-allowlist", folder, settings, port)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def test_a_player_gets_the_address_once_the_nodes_ports_are_open(tmp_path: Path) -> None:
    gateway, address = "g" * 40, "198.51.100.7"
    with (
        fleet_host(tmp_path, GATEWAY_SECRET=gateway) as host,
        helper(tmp_path) as firewall,
        agent(
            host,
            tmp_path,
            ALLOWLIST_SECRET=SECRET,
            ALLOWLIST_URL=f"http://127.0.0.1:{firewall.port}",
        ),
    ):
        player = host.player_in_hunt("Ann_1")
        eventually(lambda: host.deploy.match)
        forwarded = {"X-Forwarded-For": address, "X-Svc-Gateway": gateway, **bearer(player)}
        audit = tmp_path / "allowlist-audit.log"

        def is_told() -> bool:
            status, body = host.metagame.ask("GET", "/candidate/status", None, forwarded)
            assert status == 200, body
            return b"IN_PROGRESS" in body

        began = time.monotonic()
        eventually(is_told)
        assert address in audit.read_text()
        assert time.monotonic() - began < 2


def test_an_agent_without_answer_delays_a_player_two_seconds_at_most(tmp_path: Path) -> None:
    gateway = "g" * 40
    with fleet_host(tmp_path, GATEWAY_SECRET=gateway) as host:
        host.issue()
        player = host.player_in_hunt("Ann_1")
        eventually(lambda: host.deploy.match)
        forwarded = {"X-Forwarded-For": "198.51.100.7", "X-Svc-Gateway": gateway}
        began = time.monotonic()
        reply = host.metagame.ask("GET", "/candidate/status", None, forwarded | bearer(player))
        assert b"IN_PROGRESS" in reply[1]
        assert 1.9 < time.monotonic() - began < 5
