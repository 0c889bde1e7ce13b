"""The reports of the nodes' agents about themselves, which the dashboard shows."""

from attrs import frozen

from svcserver.board.kinds import Kind

SEEN_S = 20.0  # an agent that has not polled for this time is away


@frozen
class AgentSeen:
    """The last poll of an agent.

    ``has_helper`` says whether the node has an allowlist helper, and ``helper_works`` whether the
    helper answers and can change the firewall. ``clock_s`` is the number of seconds by which the
    node's clock is ahead. ``has_image`` says whether the node has the game servers' image.
    ``is_reached`` says whether a datagram has reached the node's game ports. None means unknown.
    """

    at: float
    has_helper: bool
    clock_s: float | None = None
    has_image: bool | None = None
    is_reached: bool | None = None
    helper_works: bool | None = None


AGENTS = Kind("node_agents", AgentSeen, lives_s=SEEN_S)
