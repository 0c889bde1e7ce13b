"""Item stacks, single items and their log; purchase tokens; loadouts and their history."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Create the tables for items, purchase tokens and loadouts."""
    _items()
    _purchases()
    _loadouts()


def _items() -> None:
    op.create_table(
        "item_stacks",
        sa.Column("character_id", sa.String(64), primary_key=True),
        sa.Column("catalog_id", sa.String(256), primary_key=True),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("extra", sa.LargeBinary, nullable=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "item_instances",
        sa.Column("character_id", sa.String(64), primary_key=True),
        sa.Column("instance_id", sa.String(256), primary_key=True),
        sa.Column("catalog_id", sa.String(256), nullable=False),
        sa.Column("update_version", sa.BigInteger, nullable=True),
        sa.Column("stateless", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "item_log",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("transaction_id", sa.String(80), nullable=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("caller", sa.String(16), nullable=False),
        sa.Column("source", sa.String(256), nullable=False),
        sa.Column("changes", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=True),
    )
    op.create_index("ix_item_log_at", "item_log", ["at"])
    op.create_index(
        "ux_item_log_transaction", "item_log", ["character_id", "transaction_id"], unique=True
    )


def _purchases() -> None:
    op.create_table(
        "purchase_tokens",
        sa.Column("token_hash", sa.String(64), primary_key=True),
        sa.Column("account_id", sa.String(64), nullable=False),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("sku", sa.String(128), nullable=False),
        sa.Column("offer_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("redeemed_at", sa.BigInteger, nullable=True),
    )
    op.create_index(
        "ix_purchase_tokens_account_id", "purchase_tokens", ["account_id", "created_at"]
    )


def _loadouts() -> None:
    op.create_table(
        "loadouts",
        sa.Column("character_id", sa.String(64), primary_key=True),
        sa.Column("character_slots", sa.Integer, nullable=False),
        sa.Column("active_index", sa.Integer, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("save_id", sa.BigInteger, nullable=True),
    )
    op.create_table(
        "loadout_elements",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_loadout_elements_character_id", "loadout_elements", ["character_id"])
    op.create_table(
        "loadout_saves",
        sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
        sa.Column("character_id", sa.String(64), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("elements", sa.String(512), nullable=False),
    )
    op.create_index(
        "ux_loadout_saves_version", "loadout_saves", ["character_id", "version"], unique=True
    )
