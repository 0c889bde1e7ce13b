"""``accounts.tokens_not_before``: older tokens are refused, so that sessions can be ended."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column, and an index to find accounts whose sessions were ended."""
    op.add_column(
        "accounts",
        sa.Column("tokens_not_before", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_index("ix_accounts_tokens_not_before", "accounts", ["tokens_not_before"])
