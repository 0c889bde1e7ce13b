"""Settings that an owner changed at run time."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Create the table for changed settings."""
    op.create_table(
        "setting_changes",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(1024), nullable=False),
        sa.Column("made_by", sa.String(96), nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
    )
