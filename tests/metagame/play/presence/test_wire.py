"""What a heartbeat may leave out. Spec: 1 §4 Status."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.metagame.play.presence.feature import Heartbeat


class HeartbeatTests(SynchronousTestCase):
    def test_map_and_state_are_texts_or_empty(self) -> None:
        read = reader(Heartbeat)
        for sent in ({}, {"map": None, "state": 7}):
            self.assertEqual(read(sent), Heartbeat("", ""))
        self.assertEqual(read({"map": "M", "state": "city"}), Heartbeat("M", "city"))
