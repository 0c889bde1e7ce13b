"""Dashboard keys and second factors, and the ids of deleted accounts."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Create the tables for dashboard access and for deleted accounts."""
    op.create_table(
        "dashboard_access",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("key_hash", sa.String(64), nullable=True, unique=True),
        sa.Column("factor", sa.String(64), nullable=True),
        sa.Column("factor_step", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "deleted_accounts",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("not_before", sa.BigInteger, nullable=False, index=True),
    )
