"""A stack's log of one session: no line repeats a field or its value.

Real processes are needed because the stack writes the log lines of all components.
"""

import re
from pathlib import Path

import orjson
import pytest

from tests.ctl.hosts import demo_host, demo_once

pytestmark = pytest.mark.live
FIELD = re.compile(r' (\w+)=("(?:\\.|[^"\\])*"|\S+)')


# slow: a stack of six processes, and an evening on it
def test_no_line_of_an_evening_has_a_field_or_its_value_twice(tmp_path: Path) -> None:
    ran = demo_once(demo_host(tmp_path / "host"))
    assert ran.returncode == 0, ran.stderr
    lines = (tmp_path / "host" / "stack.log").read_text().splitlines()
    requests = [line for line in lines if "requestlog: " in line and "via=" in line]
    assert len(requests) > 50
    for line in requests:
        assert re.search(r"[^\"] via=(gateway|proxy) ip=[0-9.]+$", line), line
    for line in lines:
        fields = FIELD.findall(line)
        names = [name for name, _ in fields]
        assert len(names) == len(set(names)), line
        for _, value in fields:
            if value.startswith('"'):
                assert line.count(orjson.loads(value)) == 1, line
