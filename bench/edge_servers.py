"""The edge servers that are compared: ours, nginx, HAProxy and Caddy, with the same duties."""

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path

from attrs import frozen

from bench.servers import LOAD_CORE, free_port, running
from svcserver.edge.certificate import make_pair, write_pair

SECRET = "bench-secret-bench-secret-bench-secret"
WIDE = "1000000,1000000"  # a rate nobody reaches
BIG, SPAN, UNREAD = 64 << 20, 1 << 20, 400 << 20
GS_HEADER = "x-svc-gameserver-apikey"

NGINX = """
daemon off; master_process off; pid {folder}/{name}.pid; error_log {folder}/{name}.err warn;
events {{ worker_connections 8192; }}
http {{
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  keepalive_requests 1000000; sendfile on; tcp_nopush on; server_tokens off;
  default_type application/octet-stream; {log}
  {servers}
}}
"""
UPSTREAM = """
server {{
  listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl;
  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  location / {{ default_type application/json; return 200 "{body}"; }}
  location /content/v1/files/ {{ alias {folder}/game/; }}
  location /svc/api/GetUserInfo {{ default_type application/json; return 200 "{who}"; }}
}}
"""
GATEWAY_NGINX = """
upstream behind {{ server 127.0.0.1:{behind}; keepalive 64; }}
limit_req_zone $binary_remote_addr zone=rates:10m rate=1000000r/s;
limit_conn_zone $binary_remote_addr zone=open:10m;
client_max_body_size 128k;
proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Forwarded "";
proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto https;
proxy_set_header X-Svc-Gateway {secret}; proxy_hide_header X-Svc-Gateway;
server {{
  listen 127.0.0.1:{port} ssl backlog=4096;
  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache off; ssl_session_tickets on;
  limit_conn open 60000; limit_req zone=rates burst=1000000 nodelay;
  if ($http_x_svc_gameserver_apikey) {{ return 403; }}
  location ~* ^/+svc/+api/+(GetUserInfo|ServerStatus|RegistrationStatus|Register)/*$ {{
    proxy_pass http://behind;
  }}
  location ~* ^/+svc(/|$) {{ return 403; }}
  location / {{ proxy_pass http://behind; }}
}}
"""
CONTENT_NGINX = """
server {{
  listen 127.0.0.1:{port};
  location /content/v1/files/ {{ alias {folder}/game/; }}
  location = /content/v1/manifest {{
    default_type application/json; alias {folder}/manifest.json;
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn 8192
  ssl-default-bind-options ssl-min-ver TLSv1.2
  tune.ssl.cachesize 0
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout http-request 10s
  http-reuse always
frontend front
  bind 127.0.0.1:{port} ssl crt {folder}/both.pem backlog 4096
  stick-table type ip size 100k expire 60s store http_req_rate(60s),conn_cur
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100000000 }}
  http-request deny deny_status 403 if {{ req.hdr({gs_header}) -m found }}
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Svc-Gateway {secret}
  default_backend behind
backend behind
  server one 127.0.0.1:{behind}
"""
CADDY = """
{{
  admin off
  auto_https off
  log default {{
    output discard
  }}
}}
https://127.0.0.1:{port} {{
  bind 127.0.0.1
  tls {folder}/cert.pem {folder}/key.pem
  log {{
    output file {folder}/caddy-access.log
  }}
  @keyed header {gs_header} *
  respond @keyed 403
  reverse_proxy 127.0.0.1:{behind}
}}
"""


@frozen
class Server:
    """A running server."""

    name: str
    port: int
    pid: int


@frozen
class Behind:
    """The upstream server behind the gateways; the relay connects to its TLS port."""

    port: int
    tls_port: int
    fingerprint: str


def prepare(folder: Path) -> str:
    """Create a certificate, a game folder and a manifest; return the certificate's fingerprint."""
    certificate, key = write_pair(pair := make_pair(["127.0.0.1", "localhost"]), folder)
    certificate.rename(folder / "cert.pem")
    key.rename(folder / "key.pem")
    both = (folder / "cert.pem").read_text() + (folder / "key.pem").read_text()
    (folder / "both.pem").write_text(both)
    (folder / "game").mkdir()
    (folder / "tmp").mkdir()
    files = [("big.bin", BIG)]
    files += [(f"data/part{number:04}.pak", 0) for number in range(500)]
    files += [("unread.bin", UNREAD)]
    rows = []
    (folder / "game" / "data").mkdir()
    for name, size in files:
        with (folder / "game" / name).open("wb") as out:
            out.truncate(size)  # a sparse file: reading it needs no disk access
        rows.append({"path": name, "size": size, "sha256": sha256(name.encode()).hexdigest()})
    total = sum(size for _, size in files)
    manifest = {"build": "bench", "totalBytes": total, "files": rows}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return pair.fingerprint


def _nginx(folder: Path, name: str, servers: str, log: str) -> list[str]:
    conf = folder / f"{name}.conf"
    conf.write_text(NGINX.format(folder=folder, name=name, servers=servers, log=log))
    return ["nginx", "-p", str(folder), "-c", str(conf)]


@contextmanager
def _up(
    name: str, port: int, folder: Path, command: list[str], environ: dict[str, str]
) -> Iterator[Server]:
    with running(command, port, folder / f"{name}.log", environ) as pid:
        yield Server(name, port, pid)


@contextmanager
def upstream(folder: Path, fingerprint: str) -> Iterator[Behind]:
    """Run the upstream nginx, which serves small replies, large files and key look-ups.

    It shares a core with the load generator.
    """
    behind = Behind(free_port(), free_port(), fingerprint)
    body = {"status": "OK", "name": "bench", "version": "1", "pad": "x" * 400}
    who = {"UserId": "UID-1", "Username": "bench", "IsAdmin": 0}
    servers = UPSTREAM.format(
        folder=folder,
        port=behind.port,
        tls=behind.tls_port,
        body=json.dumps(body).replace('"', '\\"'),
        who=json.dumps(who).replace('"', '\\"'),
    )
    command = _nginx(folder, "upstream", servers, "access_log off;")
    with running(command, behind.port, folder / "upstream.log", {}, LOAD_CORE):
        yield behind


def gateway(name: str, folder: Path, behind: Behind) -> AbstractContextManager[Server]:
    """Run our gateway, nginx, haproxy or caddy as the gateway."""
    port = free_port()
    words = {
        "folder": str(folder),
        "port": str(port),
        "behind": str(behind.port),
        "secret": SECRET,
        "gs_header": GS_HEADER,
    }
    if name == "ours":
        return _up(name, port, folder, twistd("svc-gateway"), _gateway_environ(words))
    if name == "nginx":
        log = f"access_log {folder}/access.log;"
        return _up(name, port, folder, _nginx(folder, name, GATEWAY_NGINX.format(**words), log), {})
    conf = folder / f"{name}.conf"
    if name == "haproxy":
        conf.write_text(HAPROXY.format(**words))
        return _up(name, port, folder, ["haproxy", "-f", str(conf), "-db"], {})
    conf.write_text(CADDY.format(**words))
    command = ["caddy", "run", "--config", str(conf), "--adapter", "caddyfile"]
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    return _up(name, port, folder, command, {**homes, "GOMAXPROCS": "1"})


def _gateway_environ(words: dict[str, str]) -> dict[str, str]:
    url = f"http://127.0.0.1:{words['behind']}"
    rates = ("GENERAL", "CONTENT", "REGISTER", "TOKEN", "CONNECT", "WS")
    return {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": words["port"],
        "GATEWAY_CERT": f"{words['folder']}/cert.pem",
        "GATEWAY_KEY": f"{words['folder']}/key.pem",
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_METAGAME_URL": url,
        "GATEWAY_CONTENT_URL": url,
        "GATEWAY_ALLOWLIST": "0",
        "GATEWAY_MAX_CONNECTIONS": "16384",
        "GATEWAY_MAX_CONNECTIONS_PER_IP": "16384",
        **{f"GATEWAY_RATE_{kind}": WIDE for kind in rates},
    }


def relay(folder: Path, behind: Behind) -> AbstractContextManager[Server]:
    """Run the launcher's relay, with the certificate of the upstream server pinned."""
    port = free_port()
    environ = {
        "SVC_RELAY_PORT": str(port),
        "SVC_RELAY_HOST": "127.0.0.1",
        "SVC_RELAY_GATEWAY_PORT": str(behind.tls_port),
        "SVC_RELAY_FINGERPRINT": behind.fingerprint,
    }
    return _up("relay", port, folder, twistd("svc-relay"), environ)


def content(name: str, folder: Path, behind: Behind) -> AbstractContextManager[Server]:
    """Run our content server or nginx, without TLS."""
    port = free_port()
    if name == "nginx":
        servers = CONTENT_NGINX.format(folder=folder, port=port)
        log = f"access_log {folder}/content-access.log;"
        command = _nginx(folder, "content-nginx", servers, log)
        return _up(name, port, folder, command, {})
    environ = {
        "BIND_HOST": "127.0.0.1",
        "PORT": str(port),
        "CONTENT_GAME_DIR": f"{folder}/game",
        "CONTENT_MANIFEST": f"{folder}/manifest.json",
        "METAGAME_URL": f"http://127.0.0.1:{behind.port}",
        "CONTENT_MAX_STREAMS_PER_ACCOUNT": "64",
        "CONTENT_MAX_STREAMS_TOTAL": "1024",
    }
    return _up("content", port, folder, twistd("svc-content"), environ)


def twistd(service: str) -> list[str]:
    """Return the command that an owner's systemd unit runs."""
    return [str(Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile=", service]
