"""Shapes of the configured tracks, as season files say them. Spec: 1 §4 progression/config."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class RankNeeds(TypedDict):
    """What a rank takes on top of the one below."""

    rank_id: int
    xp_required: int


class RewardEntitlement(TypedDict):
    """An entitlement that a rank gives, for so many hours; 0: for ever."""

    entitlement: str
    duration: NotRequired[float]


class RewardItem(TypedDict):
    """A number of items of one kind; the client shows them by priority, hidden ones not at all."""

    catalog_id: str
    quantity: int
    priority: NotRequired[int]
    hidden: NotRequired[bool]


class RankReward(TypedDict):
    """What a rank gives: entitlements, single items by their catalogue id, and numbers of items."""

    rank_id: int
    entitlements: NotRequired[list[RewardEntitlement] | None]
    instanced_items: NotRequired[list[str]]
    ordered_instanced_items: NotRequired[list[str]]
    stacked_items: NotRequired[list[RewardItem]]


class PrestigeReward(TypedDict):
    """What each further level gives."""

    stacked_items: list[RewardItem]


class PrestigeStep(TypedDict):
    """The levels above the last rank, which never end: what each takes, and gives."""

    xp_per_level: float
    free_rewards: NotRequired[PrestigeReward]
    premium_rewards: NotRequired[PrestigeReward]


class SeasonTrack(TypedDict):
    """A track of progression. Its ranks cost what the requirements say, each on top of the one
    below; premium rewards are for accounts with the named entitlement. An owner's season file
    (PROGRESSION_CONFIG_DIR) may leave out what need not be there.
    """

    progression_id: str
    requirements: list[RankNeeds]
    premium_gating_entitlement: NotRequired[str]
    progression_multiplier: NotRequired[float]
    start_date: NotRequired[str]
    end_date: NotRequired[str]
    prestige: NotRequired[PrestigeStep | None]
    free_rewards: NotRequired[list[RankReward]]
    premium_rewards: NotRequired[list[RankReward]]


class ConfigReply(TypedDict):
    """Configured tracks with their ranks and rewards, as in the season files."""

    paths: list[SeasonTrack]
