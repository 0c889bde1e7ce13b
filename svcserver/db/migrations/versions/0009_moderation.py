"""Bans and mutes, staff roles, and the audit log, which nobody can change."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
APPEND_ONLY = "the audit log is append only"


def upgrade() -> None:
    """Create the moderation tables, and the triggers that forbid changes to the audit log."""
    op.add_column("accounts", sa.Column("staff_role", sa.String(16), nullable=True))
    op.create_table(
        "sanctions",
        sa.Column("account_id", sa.String(64), sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("kind", sa.String(8), primary_key=True),
        sa.Column("reason", sa.String(256), nullable=False),
        sa.Column("note", sa.String(1024), nullable=False),
        sa.Column("made_by", sa.String(96), nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False, index=True),
        sa.Column("actor", sa.String(96), nullable=False, index=True),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("target", sa.String(128), nullable=False, index=True),
        sa.Column("reason", sa.String(256), nullable=False),
        sa.Column("before", sa.Text, nullable=True),
        sa.Column("after", sa.Text, nullable=True),
        sa.Column("refused", sa.String(256), nullable=True),
    )
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def _guard_sqlite() -> None:
    for change in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_log_no_{change.lower()} BEFORE {change} ON audit_log "
            f"BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END"
        )


def _guard_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION audit_log_kept() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_log_kept()"
    )
