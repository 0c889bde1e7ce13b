"""The fleet's listener and a node's agent, with real TLS and real processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from svcserver.edge.nodes import FleetFolder
from tests.live.fleet_host import ADDRESS, NODE, FleetHost, ask, fleet_host, node
from tests.support.processes import eventually

pytestmark = pytest.mark.live


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
        with node(host, tmp_path, ours) as wire:
            wire.connect()
            host.fleet.revoke(NODE)
            began = time.monotonic()
            assert wire.sock.recv(1) == b""
            assert time.monotonic() - began < 1.5
        assert is_refused(host, tmp_path, ours)


def test_unlisted_addresses_get_no_answer(tmp_path: Path) -> None:
    with fleet_host(tmp_path, GAMESERVER_ALLOW_FROM="203.0.113.7") as host:
        assert is_refused(host, tmp_path, host.issue())
