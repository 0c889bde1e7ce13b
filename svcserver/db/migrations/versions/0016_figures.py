"""Statistics by minute, hour and day."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
COUNTED = (
    "completed",
    "client_errors",
    "server_errors",
    "aborted",
    *(f"within_{bound}_ms" for bound in BOUNDS_MS),
    "beyond",
    "samples",
    "players_sum",
)


def upgrade() -> None:
    """Create the table of statistics."""
    op.create_table(
        "figures",
        sa.Column("step_s", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in COUNTED),
        sa.Column("players_most", sa.Integer, nullable=False),
        *(
            sa.Column(name, sa.Float, nullable=False)
            for name in ("loop_p95_ms", "loop_longest_ms", "rss_mb")
        ),
    )
