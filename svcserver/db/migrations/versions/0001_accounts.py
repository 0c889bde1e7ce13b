"""Accounts, their keys, invite codes, game-server keys, characters and their saves."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("username", sa.String(64), nullable=False),
        sa.Column("username_folded", sa.String(64), nullable=True),
        sa.Column("is_admin", sa.Integer, nullable=False, server_default="0"),
        sa.Column("notes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("username_folded", name="uq_accounts_username_folded"),
    )
    op.create_table(
        "account_keys",
        sa.Column("key_hash", sa.String(64), primary_key=True),
        sa.Column(
            "account_id",
            sa.String(64),
            sa.ForeignKey("accounts.id", name="fk_account_keys_account_id_accounts"),
            nullable=False,
        ),
    )
    op.create_index("ix_account_keys_account_id", "account_keys", ["account_id"])
    op.create_table(
        "invite_codes",
        sa.Column("code", sa.String(128), primary_key=True),
        sa.Column("uses_remaining", sa.Integer, nullable=False),
        sa.Column("infinite_uses", sa.Integer, nullable=False, server_default="0"),
    )
    op.create_table("gameserver_keys", sa.Column("key_hash", sa.String(64), primary_key=True))
    op.create_table(
        "gameserver_keys_to_register", sa.Column("key", sa.String(256), primary_key=True)
    )
    op.create_table(
        "characters",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("update_version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("modified_at", sa.BigInteger, nullable=False),
        sa.Column("save_id", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_characters_account_id", "characters", ["account_id"])
    op.create_table(
        "character_saves",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_character_saves_character_id", "character_saves", ["character_id", "id"])
