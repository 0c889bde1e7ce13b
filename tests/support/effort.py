"""How often a state machine of the metagame is tried."""

from __future__ import annotations

import os

from hypothesis import settings

ON_POSTGRESQL = os.environ.get("SVC_TEST_DATABASE") == "postgresql"


def machine(runs: int, steps: int) -> settings:
    """``runs`` runs of at most so many steps on SQLite, and a fifth of them on PostgreSQL.

    A machine looks at the rules, which are the same there. A fifth of it sends each statement
    hundreds of times, and each is a message to a server and its answer.
    """
    tried = max(1, runs // 5) if ON_POSTGRESQL else runs
    return settings(max_examples=tried, stateful_step_count=steps, deadline=None)
