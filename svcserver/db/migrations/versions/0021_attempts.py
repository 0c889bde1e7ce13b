"""The ids of requests that the gateway may retry, and the results of these requests."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Create the table of results, and add request ids to the histories of saves."""
    op.create_table(
        "attempts",
        sa.Column("request_id", sa.String(32), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("row", sa.String(128), nullable=False),
        sa.Column("result", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("request_id", name="pk_attempts"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_attempts_at", "attempts", ["at"])
    known = sa.text("request_id IS NOT NULL")
    for table in ("character_saves", "loadout_saves"):
        op.add_column(table, sa.Column("request_id", sa.String(32), nullable=True))
        op.create_index(
            f"ux_{table}_request_id",
            table,
            ["request_id"],
            unique=True,
            sqlite_where=known,
            postgresql_where=known,
        )
