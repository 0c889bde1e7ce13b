"""The latest hunts of each player, which the launcher shows."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the table of latest hunts."""
    op.create_table(
        "latest_hunts",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("hunt_id", sa.String(128), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_latest_hunts_account_id", "latest_hunts", ["account_id"])
