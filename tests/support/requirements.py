"""Makes a skip a failure where SVC_TEST_REQUIRE names what is missing."""

from __future__ import annotations

import os
import unittest


def required(what: str) -> bool:
    """Return whether this run insists on ``what``; ``.ci/run`` names all there are."""
    return what in os.environ.get("SVC_TEST_REQUIRE", "").split(",")


def skip(what: str, why: str) -> unittest.SkipTest:
    """Raise the result: a loud skip, or a failure where the run insists."""
    if required(what):
        raise AssertionError(f"{what} is required by SVC_TEST_REQUIRE but {why}")
    return unittest.SkipTest(f"{what}: {why}")
