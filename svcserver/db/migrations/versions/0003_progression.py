"""Placeholder until its feature lands."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing yet."""
