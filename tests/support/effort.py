"""How often a rule of the metagame is tried on examples that Hypothesis makes up."""

from __future__ import annotations

import os

from hypothesis import settings

ON_POSTGRESQL = os.environ.get("SVC_TEST_DATABASE") == "postgresql"


def machine(runs: int, steps: int) -> settings:
    """``runs`` runs of at most so many steps on SQLite, and a fifth of them on PostgreSQL.

    A machine looks at the rules, which are the same there. A fifth of it sends each statement
    hundreds of times, and each is a message to a server and its answer.
    """
    return settings(tried(runs), stateful_step_count=steps)


def tried(examples: int) -> settings:
    """So many examples on SQLite, and a fifth of them on PostgreSQL, as for a machine."""
    most = max(1, examples // 5) if ON_POSTGRESQL else examples
    return settings(max_examples=most, deadline=None)
