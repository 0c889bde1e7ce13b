"""The column ``accounts.tokens_not_before``: tokens that are older than this time are refused."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column ``tokens_not_before``, and an index on it."""
    op.add_column(
        "accounts",
        sa.Column("tokens_not_before", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("ix_accounts_tokens_not_before", "accounts", ["tokens_not_before"])
