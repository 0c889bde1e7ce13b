"""The settings of ``svc-agent``."""

from __future__ import annotations

from attrs import frozen

from svcserver.deploy.settings import engine_address
from svcserver.edge.nodes import BadFleet, Credential
from svcserver.kernel.local_urls import Address, local_url
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import Bad, BadSetting, env, log_level, strong_secret, whole
from svcserver.relay.relaying import DEFAULT_PORT
from svcserver.relay.settings import own_port


@frozen
class AgentSettings:
    """The agent's settings; each attribute is an environment variable."""

    node_file: str = env("SVC_NODE_FILE", str.strip, default="/run/secrets/svc-node")
    port: int = env("SVC_RELAY_PORT", own_port, default=DEFAULT_PORT, bad=Bad.WARN)
    docker: str = env("DOCKER_HOST", engine_address, default="/var/run/docker.sock")
    docker_certificates: str = env("DOCKER_CERT_PATH", str.strip, default="")
    allowlist_secret: Secret | None = env("ALLOWLIST_SECRET", strong_secret, default=None)
    allowlist_url: Address = env("ALLOWLIST_URL", local_url, default=Address("127.0.0.1", 61005))
    metrics_port: int | None = env("METRICS_PORT", whole(1, 65535), default=None)
    log_level: str = env("LOG_LEVEL", log_level, default="info", bad=Bad.WARN)


def credential_of(settings: AgentSettings) -> Credential:
    """Return the node's certificate and the address of its host; raises BadSetting."""
    try:
        with open(settings.node_file, "rb") as file:
            return Credential.parse(file.read(1 << 20))
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except BadFleet as error:
        why = f"cannot be used: {error}"
    raise BadSetting(f"SVC_NODE_FILE {settings.node_file} {why}")
