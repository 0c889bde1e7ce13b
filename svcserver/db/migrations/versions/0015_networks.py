"""The networks from which accounts log in, and the networks that a ban covers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Create the tables for account networks and for banned networks."""
    for table, time in (("account_networks", "at"), ("banned_networks", "ends_at")):
        op.create_table(
            table,
            sa.Column("account_id", sa.String(64), primary_key=True),
            sa.Column("network", sa.String(64), primary_key=True),
            sa.Column(time, sa.BigInteger, nullable=False),
        )
        op.create_index(f"ix_{table}_network", table, ["network"])
