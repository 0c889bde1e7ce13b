"""The captures of requests that an owner has asked for: LOG_BODIES and FLIGHT_RECORDER_DIR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from svcserver.metagame.owner.bodylog import BodyLog
from svcserver.metagame.owner.flightrecorder import FlightRecorder
from svcserver.metagame.settings import Settings
from svcserver.web.front import Observer


def captures(settings: Settings, wall_clock: Callable[[], float]) -> Iterator[Observer]:
    """Observers of the front door, their files opened."""
    if settings.log_bodies:
        yield BodyLog(Path(settings.body_log_file), settings.body_log_per_path, wall_clock).check()
    if settings.flight_recorder_dir:
        # a file of its own for each of several metagames
        path = Path(settings.flight_recorder_dir) / f"flight-{settings.port}.jsonl"
        yield FlightRecorder(path, settings.flight_recorder_mb << 20, wall_clock).check()
