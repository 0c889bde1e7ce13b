"""schemathesis compares the server with its OpenAPI document, for a limited time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from tests.support.processes import Service, free_port, metagame_environ, register
from tests.support.requirements import skip

COMMAND = Path(sys.prefix) / "schema" / "bin" / "schemathesis"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
EXAMPLES = int(os.environ.get("SVC_TEST_SCHEMA_EXAMPLES", "25"))
BOUND_S = 900


@pytest.fixture
def service(tmp_path: Path) -> Any:
    port = free_port()
    environ = metagame_environ(tmp_path, port, **EVERY_ROUTE, LOG_REQUESTS="0")
    made = Service("svc-metagame", tmp_path, environ, port)
    made.start()
    yield made
    made.stop()


def promote(service: Service, name: str) -> None:
    """Promote an account with the owner's command."""
    command = Path(sys.executable).parent / "svcctl"
    env_file = service.folder / "metagame.env"
    env_file.write_text("".join(f"{key}={value}\n" for key, value in service.environ.items()))
    words = [str(command), "account", "promote", name, "--env-file", str(env_file)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def without_bodies_of_refusals(reply: bytes) -> bytes:
    """Return the document without the bodies of error responses.

    schemathesis expects the described 404 body even for a path that matches no route. Feature tests
    compare the errors instead (``tests/support/described.py``).
    """
    document = orjson.loads(reply)
    for value in document["components"]["responses"].values():
        value.pop("content", None)
    return orjson.dumps(document)


# slow: thousands of requests, as three callers
def test_no_undocumented_status_and_no_reply_that_breaks_its_schema(
    service: Service, tmp_path: Path
) -> None:
    if not COMMAND.exists():
        raise skip("schemathesis", "make prove installs it")
    owner = register(service, "Owner_1")
    promote(service, "Owner_1")
    headers = {"x-svc-user-api-key": owner["key"]}
    status, body = service.ask("GET", "/svc/api/DashboardOpenApi", None, headers)
    assert status == 200, body
    document = tmp_path / "openapi.json"
    document.write_bytes(without_bodies_of_refusals(body))
    for credentials in (headers, headers | {"Authorization": f"Bearer {owner['token']}"}, {}):
        words = [part for pair in credentials.items() for part in ("-H", f"{pair[0]}: {pair[1]}")]
        ran = subprocess.run(
            [
                *(str(COMMAND), "run", str(document), "--url", f"http://127.0.0.1:{service.port}"),
                *("--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing"),
                # no --max-time: on a slow machine it would leave nothing to the fuzzing, on a
                # fast one that would be repeated until the time is spent
                *("--max-examples", str(EXAMPLES), "--seed", "7"),
                *("--generation-allow-x00", "true", "--warnings", "off", "--continue-on-failure"),
                *words,
            ],
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        )
        Path(tmp_path, "said.txt").write_text(ran.stdout + ran.stderr)
        assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
        assert re.search(r"\d+ (?:generated|passed)", ran.stdout), ran.stdout[-2_000:]
    status, body = service.ask("GET", "/svc/api/ServerStatus", None, headers)
    assert status == 200, body
    assert orjson.loads(body)["online"] is True
    assert "Traceback" not in service.log, json.dumps(service.log[-4_000:])
