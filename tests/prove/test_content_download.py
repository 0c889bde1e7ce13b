"""A download of one gibibyte from the content server through the gateway."""

from pathlib import Path

from tests.live.test_content_gateway import resume_through_gateway
from tests.support.proves import proves


@proves("one byte range per request, resumed through the gateway")
def test_a_gibibyte_resumed_through_the_gateway_is_intact(tmp_path: Path) -> None:
    resume_through_gateway(tmp_path, 1024 * 1024 * 1024)
