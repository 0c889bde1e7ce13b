"""The time when each account was last seen."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table of last-seen times."""
    op.create_table(
        "account_seen",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False, index=True),
    )
