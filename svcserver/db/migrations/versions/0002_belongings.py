"""Placeholder until its feature lands."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Nothing yet."""
