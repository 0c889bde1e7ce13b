"""The networks that a mute covers."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Create the table of muted networks."""
    op.create_table(
        "muted_networks",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("network", sa.String(64), primary_key=True),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_muted_networks_network", "muted_networks", ["network"])
