"""The hosts whose passports are accepted, and the record of imported passports."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the tables for trusted hosts and imports."""
    op.create_table(
        "passport_hosts",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("trusted_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "passport_imports",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("subject", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("imported_at", sa.BigInteger, nullable=False),
    )
