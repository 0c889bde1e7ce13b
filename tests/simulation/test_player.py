"""The rejections and delays that a simulated player accepts or reports."""

from math import inf
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from simulation.clock import World
from simulation.gameservers import FIRST_PID, GameServer, Servers
from simulation.history import MATCH_S, History
from simulation.player import POLL_S, SimPlayer
from simulation.players import matched
from simulation.run import Run, Scenario
from simulation.script import HOST, Step
from svcserver.deploy.simulator import CommandLine
from svcserver.players.http import Reply

LOG_IN = "/account/api/oauth/token"


@define
class Pc:
    """A fake computer process that neither sends data nor ends."""

    world: World
    dead: bool = False

    def seconds(self) -> float:
        return self.world.now


@define
class Web:
    """A client that receives the same status for every request."""

    status: int
    headers: dict[str, str] = field(factory=dict)

    async def request_once(self, *_: Any, **__: Any) -> Reply:
        return Reply(self.status, b"{}")


class PlayerCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world, self.history = World(1), History()
        self.servers = Servers(self.world, lambda ip, port: True)
        pc: Any = Pc(self.world)
        nobody: Any = None
        self.player = SimPlayer(
            0, "Ann_0", "CODE", lambda: pc, self.history, self.servers, [], "city", nobody
        )

    def answers(self, status: int, *, signed_in: bool) -> None:
        """Answer every later request of the player with this status."""
        web: Any = Web(status, {"Authorization": "Bearer x"} if signed_in else {})
        self.player.web = web
        if signed_in:
            self.player.issued = self.world.now

    def rules(self) -> list[str]:
        return [violation.rule for violation in self.history.wrong.listed]


class StatusTests(PlayerCase):
    def ask(self, method: str, path: str) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.player.make_request(method, path)))

    def test_a_signed_out_player_may_be_refused(self) -> None:
        self.answers(401, signed_in=False)
        self.ask("GET", "/character")
        self.assertEqual(self.rules(), [])

    def test_log_in_and_registration_need_no_token(self) -> None:
        for path in (LOG_IN, "/svc/api/Register"):
            self.answers(401, signed_in=False)
            self.ask("POST", path)
        self.assertEqual(self.rules(), ["refused for nothing"] * 2)

    def test_a_token_counts_until_the_owner_ends_it(self) -> None:
        self.answers(401, signed_in=True)
        self.ask("GET", "/character")
        self.assertEqual(self.rules(), ["refused for nothing"])
        self.player.shut_out_at = self.world.now
        self.ask("GET", "/character")
        self.assertEqual(len(self.rules()), 1)


class WaitingTests(PlayerCase):
    def begin(self, status: int) -> None:
        """Request a game server; every reply has this status and contains no server."""
        self.answers(status, signed_in=True)
        Deferred.fromCoroutine(matched(self.player, "hunt"))

    def wait(self, seconds: float) -> None:
        """Let this time pass, and check at each poll whether a player waits too long."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.world.run_until(self.world.now + POLL_S)
            self.history.waiting.report_overdue(self.world.now)

    def frozen(self) -> GameServer:
        """Return a frozen hunt whose player has not left it."""
        line = CommandLine("key", 8770, "map", "behemoth", "hunt", "x", "127.0.0.1:1")
        nobody: Any = None
        server = GameServer(self.world, self.servers, nobody, FIRST_PID, line, self.world.now)
        self.servers.started[FIRST_PID] = server
        server.players[self.player.account] = self.world.now
        server.stand_still(deaf=True)
        return server

    def test_a_wait_has_an_end(self) -> None:
        self.begin(200)
        self.wait(MATCH_S - 2 * POLL_S)
        self.assertEqual(self.rules(), [])
        self.wait(3 * POLL_S)
        self.assertEqual(self.rules(), ["nobody waits for ever"])

    def test_a_frozen_hunt_extends_the_patience(self) -> None:
        self.frozen()
        self.begin(200)
        self.wait(MATCH_S + 100.0)
        self.assertEqual(self.rules(), [])
        self.wait(100.0)
        self.assertEqual(self.rules(), ["nobody waits for ever"])

    def test_a_signed_out_player_may_wait(self) -> None:
        self.player.shut_out_at = self.world.now
        self.begin(401)
        self.wait(2 * MATCH_S)
        self.assertEqual(self.rules(), [])


class TroubleTests(SynchronousTestCase):
    """The players whose failed requests a fault excuses.

    In the simulation of seed 811, a player was once cut off before the fault was recorded.
    """

    def after(self, fault: str) -> tuple[float, list[str]]:
        steps = [Step(5.0, who, "log_in", who) for who in range(2)]
        run = Run(Scenario(1, 2, 30.0, steps=[*steps, Step(20.0, HOST, fault, 1)]))
        run.run()
        answers = run.history.answers
        return answers.troubled_until, [who for who in answers._of if answers._of[who] > -inf]

    def test_a_fault_of_one_line_excuses_only_its_player(self) -> None:
        for fault in ("cut-line", "pulled-plug", "silent-line", "slow-reader"):
            until, who = self.after(fault)
            self.assertEqual((until, len(who)), (-inf, 1), fault)

    def test_a_fault_of_the_host_excuses_everybody(self) -> None:
        until, who = self.after("kill-content")
        self.assertGreater(until, 0.0)
        self.assertEqual(who, [])

    def test_a_fault_is_known_before_it_cuts_anybody_off(self) -> None:
        calls: list[str] = []
        run = Run(Scenario(1, 1, 10.0, steps=[Step(5.0, HOST, "cut-line", 1)]))
        begins = run.history.answers.trouble

        def trouble(until: float, who: str = "", settles_s: float = 60.0) -> None:
            calls.append(f"{who} {settles_s:.0f}")
            begins(until, who, settles_s)

        self.patch(type(run.history.answers), "trouble", lambda self, *a, **k: trouble(*a, **k))
        run.run()
        self.assertEqual([call.split()[1] for call in calls], ["0", "60"])
