"""Skips that become failures if SVC_TEST_REQUIRE names the missing requirement."""

import os
import unittest


def required(what: str) -> bool:
    """Return whether this run requires ``what``; ``.ci/run`` names every requirement."""
    return what in os.environ.get("SVC_TEST_REQUIRE", "").split(",")


def skip(what: str, why: str) -> unittest.SkipTest:
    """Skip the test, or fail it if the run requires what is missing."""
    if required(what):
        raise AssertionError(f"{what} is required by SVC_TEST_REQUIRE but {why}")
    return unittest.SkipTest(f"{what}: {why}")
