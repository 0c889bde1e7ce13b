"""The owner's announcement: a single row, which the next announcement replaces."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Create the table for the announcement."""
    op.create_table(
        "announcements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("text", sa.String(256), nullable=False),
        sa.Column("made_by", sa.String(96), nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
        sa.Column("restart_at", sa.BigInteger, nullable=True),
    )
