"""Data about access, moved from live state to the database.

These are dashboard sessions, the registration mode, and the number of second-factor codes tried.
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Create two tables and add two columns; this signs everyone out of the dashboard."""
    op.create_table(
        "dashboard_sessions",
        sa.Column("ticket_hash", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("ways", sa.String(16), nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_dashboard_sessions_account_id", "dashboard_sessions", ["account_id"])
    op.create_table(
        "registration_mode",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("mark", sa.String(32), nullable=False),
    )
    for name, kind in (("tries", sa.Integer), ("tries_since", sa.BigInteger)):
        column = sa.Column(name, kind, nullable=False, server_default="0")
        op.add_column("dashboard_access", column)
