"""Maintenance mode, stored so that it stays on after a crash."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Create the table for maintenance mode."""
    op.create_table(
        "maintenance",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("made_by", sa.String(96), nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("then_act", sa.String(16), nullable=False),
        sa.Column("wait_until", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(256), nullable=False),
    )
