"""The start of each signing key's use: the previous key may go a day later."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table; the metagame notes its key at its start."""
    op.create_table(
        "signing_keys",
        sa.Column("kid", sa.String(64), primary_key=True),
        sa.Column("signs_since", sa.BigInteger, nullable=False),
    )
