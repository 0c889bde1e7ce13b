"""The launch key, which the deploy server keeps while the game server runs. Spec: 1 §5.5."""

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.play import deploy_client
from svcserver.metagame.play.deploy_client import AT_ONCE, DeployClient, LaunchKeys
from tests.metagame.play.matchmaking.base import Reply
from tests.support.game import GAME_SERVER_KEY, Game

ALIVE, DEAD = "ab" * 32, "cd" * 32


class Deploy:
    """A fake of treq."""

    def __init__(self) -> None:
        self.alive = {fingerprint(ALIVE)}
        self.requests: list[str] = []
        self.answer: Any = None
        self.held: list[Deferred[Any]] = []

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        assert method == "GET"
        start, _, key_hash = url.partition("?sha256=")
        assert start == "http://127.0.0.1:61001/gameservers/key"
        self.requests.append(key_hash)
        if isinstance(self.answer, Deferred):
            self.held.append(Deferred())
            return self.held[-1]
        if isinstance(self.answer, Exception):
            return fail(self.answer)
        return succeed(self.answer or Reply(200, {"known": key_hash in self.alive}))


class GateTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.deploy = Deploy()
        self.game = Game(self, http=self.deploy)

    def status(self, key: str) -> int:
        return self.game.browse("POST", "/heartbeat", json={}, game_server=key).status

    def test_a_key_counts_while_its_game_server_runs(self) -> None:
        self.assertEqual([self.status(key) for key in (ALIVE, DEAD)], [200, 401])
        self.assertNotIn(ALIVE, self.deploy.requests)
        self.deploy.alive.clear()
        self.game.clock.advance(1.0)
        self.assertEqual(self.status(ALIVE), 401)

    def test_a_launch_key_is_looked_up_at_most_once_a_second(self) -> None:
        for _ in range(5):
            self.status(ALIVE)
        self.assertEqual(len(self.deploy.requests), 1)

    def test_the_shared_key_and_malformed_keys_need_no_look_up(self) -> None:
        self.assertEqual(self.status(GAME_SERVER_KEY), 200)
        for nonsense in ("x", "NO_KEY", "AB" * 32, "ab" * 33, "é" * 32):
            self.assertEqual(self.status(nonsense), 401)
        self.assertEqual(self.deploy.requests, [])

    def test_a_launch_key_without_a_usable_reply_is_401(self) -> None:
        for answer in (
            OSError("gone"),
            Reply(404, {}),
            Reply(200, {"known": "yes"}),
            Reply(200, []),
            Reply(200, b"?"),
        ):
            self.deploy.answer = answer
            self.assertEqual(self.status(ALIVE), 401)

    def test_a_launch_key_without_a_deploy_server_is_401(self) -> None:
        self.game = Game(self, http=self.deploy, DEPLOYSERVER_URL="")
        self.assertEqual(self.status(ALIVE), 401)


class BoundTests(SynchronousTestCase):
    def test_key_lookups_are_limited_and_excess_lookups_refused(self) -> None:
        self.patch(deploy_client, "MAX_WAITING", 3)
        deploy, clock = Deploy(), Clock()
        deploy.answer = Deferred()
        keys = LaunchKeys(DeployClient(deploy, clock, "127.0.0.1:61001", 1.0))
        results: list[bool] = []
        for number in range(AT_ONCE + 4):
            keys.knows(f"{number:064x}").addCallback(results.append)
        self.assertEqual((len(deploy.held), results), (AT_ONCE, [False]))
        clock.advance(2.0)  # silence: every question has a deadline
        clock.advance(2.0)
        self.assertEqual(results, [False] * (AT_ONCE + 4))
        self.assertEqual(clock.getDelayedCalls(), [])
