"""Notes, creators and expiry times of invite codes, and the accounts that used the codes."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add columns to the table of invite codes, and create the table of their uses."""
    for name, length in (("note", 64), ("made_by", 96)):
        column = sa.Column(name, sa.String(length), nullable=False, server_default="")
        op.add_column("invite_codes", column)
    for name in ("made_at", "expires_at"):
        op.add_column("invite_codes", sa.Column(name, sa.BigInteger, nullable=True))
    op.create_table(
        "invite_uses",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("code", sa.String(128), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_invite_uses_code", "invite_uses", ["code"])
