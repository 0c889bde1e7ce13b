"""The current registration mode. Spec: 1 §4 Accounts."""

from __future__ import annotations

from attrs import define


@define
class Registration:
    """The mode, kept in memory: a restart returns to REGISTRATION_MODE."""

    mode: str | None
