from __future__ import annotations

import subprocess
from typing import Any
from unittest import SkipTest, mock
from urllib.request import proxy_bypass_environment

from twisted.trial.unittest import SynchronousTestCase

from tests.support.registries import PAUSES_S, is_away, loaded

REFUSED = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)'\n"
    "ERROR: Could not find a version that satisfies the requirement attrs (from versions: none)\n"
)


class AwayTests(SynchronousTestCase):
    def test_what_pip_and_npm_say_without_a_registry(self) -> None:
        for said in (
            REFUSED,
            REFUSED.splitlines()[1],
            "ERROR: HTTP error 503 while getting https://example.org/a.whl",
            "urllib3.exceptions.ReadTimeoutError: Read timed out.",
            "npm error code ECONNREFUSED",
            "npm ERR! code EAI_AGAIN",
            "npm error code E503",
            "npm error code ETIMEDOUT",
            "npm error code ERR_SOCKET_TIMEOUT",
            "npm error network request to https://example.org/ failed",
        ):
            self.assertTrue(is_away(said), said)

    def test_what_is_wrong_with_the_project(self) -> None:
        for said in (
            "",
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "ERROR: No matching distribution found for attrs==99 (from versions: 25.4, 26.1)",
            "npm error code EUSAGE",
            "npm error code EINTEGRITY",
            "SyntaxError: invalid syntax",
        ):
            self.assertFalse(is_away(said), said)


class ProxyTests(SynchronousTestCase):
    def test_none_stands_between_the_tests_and_what_they_start(self) -> None:
        for host in ("127.0.0.1:61000", "localhost:80", "localhost"):
            self.assertTrue(proxy_bypass_environment(host), host)


class LoadedTests(SynchronousTestCase):
    def load(self, *ends: Any) -> Any:
        self.waited: list[float] = []
        with mock.patch.object(subprocess, "run", side_effect=ends):
            return loaded(["pip"], 1.0, wait=self.waited.append)

    def ended(self, status: int, said: str) -> Any:
        return subprocess.CompletedProcess(["pip"], status, "", said)

    def test_it_is_tried_again(self) -> None:
        done = self.load(self.ended(1, REFUSED), self.ended(0, REFUSED))
        self.assertEqual((done.returncode, self.waited), (0, [PAUSES_S[0]]))

    def test_a_registry_that_stays_away_is_a_skip_and_a_failure_for_whoever_insists(self) -> None:
        for insists, told in (("", SkipTest), ("registries", AssertionError)):
            with mock.patch.dict("os.environ", SVC_TEST_REQUIRE=insists):
                self.assertRaises(told, self.load, *[self.ended(1, REFUSED)] * 3)
                self.assertEqual(self.waited, [*PAUSES_S])

    def test_one_that_never_answers_is_waited_for_once(self) -> None:
        with mock.patch.dict("os.environ", SVC_TEST_REQUIRE="node"):
            self.assertRaises(SkipTest, self.load, subprocess.TimeoutExpired(["pip"], 1.0))
        self.assertEqual(self.waited, [])

    def test_any_other_failure_comes_at_once(self) -> None:
        self.assertEqual(self.load(self.ended(1, "do not match the hashes")).returncode, 1)
        self.assertEqual(self.waited, [])
