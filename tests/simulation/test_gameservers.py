"""The players on each simulated game server."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import World
from simulation.gameservers import FIRST_PID, GameServer, Servers
from simulation.run import Run, Scenario
from simulation.script import Step
from svcserver.deploy.simulator import CommandLine

PORT, IP = 8774, "198.51.100.7"


def started(servers: Servers) -> GameServer:
    """Start another game server, which listens on the port."""
    line = CommandLine("key", PORT, "map", "behemoth", "hunt", "somebody", "127.0.0.1:1")
    nobody: Any = None  # there is no deploy server to notify
    pid = FIRST_PID + servers.launches
    server = GameServer(servers.world, servers, nobody, pid, line, servers.world.now)
    server.boot()
    servers.started[pid] = server
    servers.launches += 1
    return server


class GameServerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.servers = Servers(World(1), lambda ip, port: True)

    def test_players_of_an_earlier_server_on_the_port_do_not_count(self) -> None:
        first = started(self.servers)
        self.assertTrue(first.hear(IP, "somebody"))
        first.end()
        second = started(self.servers)
        self.assertFalse(first.hear(IP, "somebody"))
        self.assertFalse(first.plays)
        self.assertEqual(second.players, {})
        self.assertTrue(second.hear(IP, "another"))
        self.assertEqual(list(second.players), ["another"])
        self.assertTrue(second.hear(IP, "another", goodbye=True))
        self.assertEqual(second.players, {})

    def test_a_frozen_hunt_holds_up_its_players_until_it_ends(self) -> None:
        server = started(self.servers)
        server.hear(IP, "somebody")
        self.assertFalse(self.servers.holds_up("somebody"))
        server.stand_still(deaf=False)
        self.assertTrue(self.servers.holds_up("somebody"))
        self.assertFalse(self.servers.holds_up("another"))
        server.end()
        self.assertFalse(self.servers.holds_up("somebody"))

    def test_a_blocked_player_is_not_admitted(self) -> None:
        self.servers.lets_in = lambda ip, port: False
        server = started(self.servers)
        self.assertFalse(server.hear(IP, "somebody"))
        self.assertEqual(server.players, {})


class StartedAnewTests(SynchronousTestCase):
    def test_a_restarted_game_is_on_no_game_server(self) -> None:
        """The first player restarts the game in a hunt; the second player gets the hunt's port."""
        steps = [Step(5.0, who, "log_in", who) for who in range(2)]
        steps += [Step(30.0, 0, "hunt", 1), Step(60.0, 0, "log_in", 2)]
        steps += [Step(350.0, 1, "hunt", 3), Step(560.0, 1, "hunt", 4)]
        steps += [Step(390.0 + 15.0 * number, 0, "heartbeat", number) for number in range(35)]
        run = Run(Scenario(1, 2, 1000.0, steps=steps))
        self.assertEqual(run.run().violations, [])
        hunts = [
            server.line.port for server in run.host.servers.started.values() if not server.stays
        ]
        self.assertEqual(hunts, hunts[:1] * 3)
