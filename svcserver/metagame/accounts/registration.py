"""Who may register now. Spec: 1 §4 Accounts."""

from __future__ import annotations

from attrs import define


@define
class Registration:
    """The registration mode, in memory; a restart returns to REGISTRATION_MODE."""

    mode: str | None
