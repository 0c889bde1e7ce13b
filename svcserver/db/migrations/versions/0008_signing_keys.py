"""The time at which each signing key came into use."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table of signing keys; a metagame adds its key when it starts."""
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.String(64), primary_key=True),
        sa.Column("signs_since", sa.BigInteger, nullable=False),
    )
