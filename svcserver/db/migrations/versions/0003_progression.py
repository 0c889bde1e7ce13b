"""Progression, entitlements, cooldowns, bounties, encounters, breadcrumbs, escalation.

Times are epoch milliseconds.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the progression tables."""
    _events()
    _tracks()
    _belongings()
    _discoveries()


def _key(name: str, length: int = 128) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), primary_key=True)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _events() -> None:
    op.create_table(
        "progression_events",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        _count("at"),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("caller", sa.String(96), nullable=False),
        sa.Column("route", sa.String(256), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("reply", sa.LargeBinary, nullable=False),
        sa.Column("note", sa.String(1024), nullable=False),
    )
    op.create_index("ix_progression_events_account_id", "progression_events", ["account_id"])


def _tracks() -> None:
    op.create_table(
        "progression_tracks",
        _key("account_id", 64),
        _key("progression_id"),
        _count("progress"),
        _count("confirmed_free"),
        _count("confirmed_premium"),
        _count("confirmed_at"),
    )
    op.create_table(
        "progression_objectives",
        _key("account_id", 64),
        _key("objective_id"),
        _count("progress"),
        _count("completed_count"),
        _count("created_at"),
        _count("modified_at"),
    )
    op.create_table(
        "progression_last_grants",
        _key("account_id", 64),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("reply", sa.LargeBinary, nullable=False),
        _count("at"),
    )
    op.create_table(
        "hunt_passes",
        _key("account_id", 64),
        sa.Column("progression_id", sa.String(128), nullable=False),
    )
    op.create_table(
        "escalation_seasons",
        _key("account_id", 64),
        _key("season_id", 64),
        _count("level"),
        _count("xp"),
        _count("version"),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _belongings() -> None:
    op.create_table(
        "entitlements",
        _key("account_id", 64),
        _key("name"),
        sa.Column("duration", sa.Float(53), nullable=False),
        _count("activated_at"),
        sa.Column("revoked", sa.Integer, nullable=False),
        sa.Column("source", sa.String(256), nullable=False),
    )
    op.create_table(
        "cooldowns",
        _key("account_id", 64),
        _key("cooldown_id"),
        sa.Column("started", sa.String(64), nullable=False),
    )
    op.create_table(
        "bounties",
        _key("account_id", 64),
        _key("bounty_id"),
        sa.Column("slot_index", sa.BigInteger, nullable=True),
        _count("version"),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "bounty_drafts",
        _key("account_id", 64),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _discoveries() -> None:
    op.create_table(
        "encountered_content",
        sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("content_type", sa.Integer, nullable=False),
        sa.Column("content_id", sa.String(128), nullable=False),
        sa.UniqueConstraint("character_id", "content_type", "content_id"),
    )
    op.create_table(
        "breadcrumbs",
        _key("character_id", 64),
        _count("version"),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
