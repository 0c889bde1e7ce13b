"""What is done once for all tests serves each of them: tests/support/once.py."""

from __future__ import annotations

import warnings

import pytest
from _pytest import unittest
from _pytest.fixtures import FixtureManager
from twisted.trial import _synctest
from twisted.trial.unittest import SynchronousTestCase

from tests.support import once


def warn() -> None:
    warnings.warn("it is told to each", UserWarning, stacklevel=1)


class WarningTests(SynchronousTestCase):
    """Each test is told what the one before it was told, though it comes from the same line."""

    def test_one(self) -> None:
        warn()
        self.assertEqual(len(self.flushWarnings([warn])), 1)

    def test_and_another(self) -> None:
        warn()
        self.assertEqual(len(self.flushWarnings([warn])), 1)

    def test_trial_changes_the_filters_each_time(self) -> None:
        """By that Python forgets what it has warned of, also where it would warn once a line."""
        told: list[object] = []
        warnings.simplefilter("default")
        for _ in range(2):
            _synctest._collectWarnings(told.append, warn)
        self.assertEqual(len(told), 2)


class Fixture:
    @pytest.fixture(autouse=True)
    def noted(self) -> None:
        """Pytest runs it for each test of a class that inherits it."""
        vars(self)["has_run"] = True


class FixtureTests(Fixture, SynchronousTestCase):
    def test_one_that_a_class_inherits_is_found(self) -> None:
        if FixtureManager.parsefactories is once._parse_factories:  # trial knows no fixtures
            self.assertTrue(vars(self).get("has_run"))


def test_all_are_replaced() -> None:
    """A version of them that has other names is noticed; only pytest replaces them."""
    assert _synctest._setWarningRegistryToNone is once._leave_registries
    assert unittest._get_twisted_version() is unittest.TwistedVersion.Version25
    assert unittest._get_twisted_version.cache_info().hits > 0
    assert FixtureManager.parsefactories is once._parse_factories
    assert once._has_fixtures.cache_info().hits > 0
