"""Indexes for deleting expired rows without reading whole tables."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the indexes for deleting expired rows."""
    op.create_index(
        "ix_purchase_tokens_redeemed_at", "purchase_tokens", ["redeemed_at", "expires_at"]
    )
    op.create_index("ix_slayer_links_ends_at", "slayer_links", ["ends_at"])
