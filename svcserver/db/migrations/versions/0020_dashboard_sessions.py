"""The dashboard's sessions, which stood on the board."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Create the table; who was signed in signs in again."""
    op.create_table(
        "dashboard_sessions",
        sa.Column("ticket_hash", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("not_before", sa.BigInteger, nullable=False),
        sa.Column("ways", sa.String(16), nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_dashboard_sessions_account_id", "dashboard_sessions", ["account_id"])
