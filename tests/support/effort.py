"""The number of examples that Hypothesis generates for the metagame's rules."""

import os

from hypothesis import settings

ON_POSTGRESQL = os.environ.get("SVC_TEST_DATABASE") == "postgresql"


def machine(runs: int, steps: int) -> settings:
    """Limit a state machine to this many runs and steps.

    On PostgreSQL only a fifth of the runs is made. A state machine tests rules that are the same on
    both databases. On PostgreSQL, each run sends hundreds of statements, and each statement is a
    round trip to the server.
    """
    return settings(tried(runs), stateful_step_count=steps)


def tried(examples: int) -> settings:
    """Limit a test to this many examples on SQLite, and to a fifth of them on PostgreSQL."""
    most = max(1, examples // 5) if ON_POSTGRESQL else examples
    return settings(max_examples=most, deadline=None)
