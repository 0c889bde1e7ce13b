"""Clients that openapi-generator makes from the OpenAPI document in several languages.

``tests/live/test_generated_client.py`` plays with the client from the first-call page.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from tests.ctl.command import new_host, svcctl
from tests.ctl.hosts import change
from tests.support.processes import metagame
from tests.support.requirements import skip

PROGRAMS = Path(sys.prefix) / "schema" / "bin"  # requirements/schema.lock
GENERATOR = PROGRAMS / "openapi-generator-cli"
POINTER_IN_A_NAME = re.compile(r"Of\w+\*\w")
PLAY = """
import sys
from openapi_client import (
    ApiClient, ApiException, CharactersApi, Configuration, GuildsApi, LoginApi, LoginRequest,
    ManagementApi, PartiesApi, RegisterRequest,
)

anybody = ApiClient(Configuration(host=sys.argv[1]))
key = ManagementApi(anybody).management_register(RegisterRequest(Username="Ada_1")).uuk
token = LoginApi(anybody).login_log_in(LoginRequest(exchange_code=key)).access_token
mine = ApiClient(Configuration(host=sys.argv[1], access_token=token))
[character] = CharactersApi(mine).characters_read()
assert PartiesApi(mine).parties_invites() is not None
try:
    GuildsApi(mine).guilds_leave()
except ApiException as why:
    assert why.status == 404, why
print(character.name)
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not GENERATOR.exists():
        raise skip("openapi-generator", "make prove installs it")
    if shutil.which("java") is None:
        raise skip("openapi-generator", "there is no java; apt-get install default-jre-headless")
    folder = tmp_path_factory.mktemp("document")
    host = new_host(folder / "host")
    for name, value in EVERY_ROUTE.items():
        change(host, "metagame", name, value)
    made = folder / "openapi.json"
    made.write_text(svcctl("openapi", "--config", host, "--json").out)
    return made


def generated(document: Path, language: str, into: Path) -> Path:
    """Generate a client and return its folder; fail if the generator reports any fault."""
    words = ["generate", "-i", str(document), "-g", language, "-o", str(into)]
    ran = subprocess.run(
        [str(GENERATOR), *words], capture_output=True, text=True, check=False, timeout=300
    )
    output = ran.stdout + ran.stderr
    assert ran.returncode == 0, output[-4_000:]
    assert "Exception" not in output, output[-4_000:]
    return into


# slow: a generator that Java runs, and a metagame
def test_a_python_client_logs_in_and_reads_its_character(document: Path, tmp_path: Path) -> None:
    made = generated(document, "python", tmp_path / "client")
    with metagame(tmp_path) as service:
        ran = subprocess.run(
            [str(PROGRAMS / "python"), "-c", PLAY, f"http://127.0.0.1:{service.port}"],
            env={**os.environ, "PYTHONPATH": str(made)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "Ada_1"


# slow: a generator that Java runs
@pytest.mark.parametrize("language", ["typescript-fetch", "go"])
def test_another_language_has_a_name_for_every_type(
    document: Path, tmp_path: Path, language: str
) -> None:
    made = generated(document, language, tmp_path / "client")
    files = [*made.rglob("*.ts"), *made.rglob("*.go")]
    assert len(files) > 100
    for file in files:
        reply = file.read_text()
        assert "'./Null'" not in reply, file  # such a file would import nothing
        assert not POINTER_IN_A_NAME.search(reply), file  # such a file is no Go
