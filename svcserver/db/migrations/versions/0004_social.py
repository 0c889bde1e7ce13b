"""Friendships and blocks; guilds, guild members and guild invites; slayer links and their invites.

Times are epoch milliseconds.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the social tables."""
    _friends()
    _guilds()
    _slayer_links()


def _friends() -> None:
    op.create_table(
        "friendships",
        sa.Column("account_low", sa.String(64), primary_key=True),
        sa.Column("account_high", sa.String(64), primary_key=True),
        sa.Column("asked_by", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_friendships_account_high", "friendships", ["account_high"])
    op.create_table(
        "blocks",
        sa.Column("blocker", sa.String(64), primary_key=True),
        sa.Column("blocked", sa.String(64), primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_blocks_blocked", "blocks", ["blocked"])


def _guilds() -> None:
    op.create_table(
        "guilds",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(32), nullable=False),
        sa.Column("name_key", sa.String(32), nullable=False),
        sa.Column("nameplate", sa.String(16), nullable=False),
        sa.Column("nameplate_key", sa.String(16), nullable=True),
        sa.Column("leader_id", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name_key", name="uq_guilds_name_key"),
        sa.UniqueConstraint("nameplate_key", name="uq_guilds_nameplate_key"),
    )
    op.create_table(
        "guild_members",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("guild_id", sa.String(64), nullable=False),
        sa.Column("rank", sa.String(16), nullable=False),
        sa.Column("joined_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_guild_members_guild_id", "guild_members", ["guild_id"])
    op.create_table(
        "guild_invites",
        sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("guild_id", sa.String(64), nullable=False),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("inviter_id", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("declined_at", sa.BigInteger, nullable=True),
        sa.UniqueConstraint("id", name="uq_guild_invites_id"),
        sa.UniqueConstraint("guild_id", "account_id", name="uq_guild_invites_guild_id"),
    )
    op.create_index("ix_guild_invites_account_id", "guild_invites", ["account_id"])
    op.create_index("ix_guild_invites_expires_at", "guild_invites", ["expires_at"])


def _slayer_links() -> None:
    op.create_table(
        "slayer_invites",
        sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("link_id", sa.String(64), nullable=False),
        sa.Column("sender_id", sa.String(64), nullable=False),
        sa.Column("recipient_id", sa.String(64), nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("link_id", name="uq_slayer_invites_link_id"),
    )
    op.create_index("ix_slayer_invites_sender_id", "slayer_invites", ["sender_id"])
    op.create_index("ix_slayer_invites_recipient_id", "slayer_invites", ["recipient_id"])
    op.create_index("ix_slayer_invites_expires_at", "slayer_invites", ["expires_at"])
    op.create_table(
        "slayer_links",
        sa.Column("account_id", sa.String(64), primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("other_id", sa.String(64), nullable=False),
        sa.Column("link_id", sa.String(64), nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("account_id", "other_id", name="uq_slayer_links_account_id"),
    )
    op.create_index("ix_slayer_links_link_id", "slayer_links", ["link_id"])
