"""``make bench-edge``: gateway, relay and content server against nginx, HAProxy and Caddy.

    python -m bench.edge [--parts gateway,relay,content] [--seconds 3] [--rounds 3] [--idle 300]

The server under test has one core; wrk and the upstream server share another core. The rounds
alternate between the servers, and each figure is a median. Throughput is per CPU second of the
server.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from attrs import frozen

from bench.edge_servers import GS_HEADER, SPAN, Behind, Server, content, gateway, prepare, relay
from bench.edge_servers import upstream as behind_all
from bench.heads import varied
from bench.kept import finish, json_option
from bench.meters import KIB, MIB, WrkRun, growth, half_load, resumed, wrk
from bench.servers import on_the_generators_core
from bench.table import FloorTable

PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy", "caddy": "caddy", "wrk": "wrk"}
API_KEY = "x-svc-user-api-key: UUK_" + "0" * 48
BIG = "/content/v1/files/big.bin"
UNREAD = "/content/v1/files/unread.bin"
STREAMS = 24
P99_MS, IDLE_KIB, UNREAD_MIB, STREAM_MIB = 5.0, 50.0, 16.0, 1.0


@frozen
class Case:
    """One kind of load.

    ``floors`` maps servers to the lowest allowed ratio of our figure to theirs.
    """

    name: str
    path: str
    connections: int
    floors: dict[str, float]
    headers: tuple[str, ...] = ()
    bulk: bool = False  # counted in megabytes rather than requests
    refused: bool = False  # every answer must be a refusal
    varied: bool = False  # tokens, paths and ids differ, as players' do
    resumed: bool = False  # each request resumes a TLS session

    def figure(self, run: WrkRun) -> float:
        """Return the figure that is compared: the run's megabytes or requests per CPU second."""
        return run.megabytes_per_cpu if self.bulk else run.per_cpu

    @property
    def unit(self) -> str:
        """Return the unit of the figure."""
        return "MB/cpu s" if self.bulk else "req/cpu s"


ONE_HEAD = Case("small requests, equal headers", "/svc-status", 50, {"nginx": 0.20, "caddy": 1.2})
GATEWAY = (
    Case("small requests, varied headers", "/svc-status", 50, {"nginx": 0.33}, varied=True),
    ONE_HEAD,
    Case("refusals", "/svc-status", 50, {"nginx": 0.20}, (f"{GS_HEADER}: x",), refused=True),
    Case("TLS handshakes", "/svc-status", 50, {"nginx": 0.6}, ("Connection: close",)),
    Case("TLS resumptions", "/svc-status", 1, {"nginx": 0.4}, resumed=True),
    Case("64 MB over TLS", BIG, 4, {"nginx": 0.5}, (API_KEY,), bulk=True),
)
CONTENT = (
    Case("64 MB file", BIG, 4, {"nginx": 0.5}, (API_KEY,), bulk=True),
    Case(
        "1 MB ranges",
        BIG,
        8,
        {"nginx": 0.5},
        (API_KEY, f"Range: bytes={SPAN}-{2 * SPAN - 1}"),
        bulk=True,
    ),
    Case("manifest", "/content/v1/manifest", 50, {"nginx": 0.10}),
)


Runs = dict[tuple[str, str], list[WrkRun]]


def drive(
    cases: tuple[Case, ...],
    servers: list[Server],
    scheme: str,
    folder: Path,
    arguments: argparse.Namespace,
) -> Runs:
    """Run every case against every server, round after round."""
    runs: Runs = {}
    for _ in range(arguments.rounds):
        for case in cases:
            for server in servers:
                if case.resumed:
                    run = resumed(server.pid, server.port, case.path, arguments.seconds)
                    runs.setdefault((case.name, server.name), []).append(run)
                    continue
                url = f"{scheme}://127.0.0.1:{server.port}{case.path}"
                script = varied(folder, server.port) if case.varied else None
                run = wrk(
                    server.pid,
                    url,
                    case.connections,
                    arguments.seconds,
                    *case.headers,
                    script=script,
                )
                runs.setdefault((case.name, server.name), []).append(run)
    return runs


def compare(
    table: FloorTable, part: str, cases: tuple[Case, ...], runs: Runs, ours: str, others: list[str]
) -> None:
    """Add the rows that compare the server ``ours`` with each of the other servers."""
    for case in cases:
        mine = runs[case.name, ours]
        figure = median(case.figure, mine)
        name = f"{part}: {case.name}"
        for rival in others:
            theirs = median(case.figure, runs[case.name, rival])
            ratio = figure / theirs if theirs else 0.0
            table.against(name, figure, case.unit, ratio, rival, case.floors.get(rival, 0.0))
        odd = sum(run.requests - run.refused if case.refused else run.refused for run in mine)
        if odd:
            table.add(f"{name}: answers of the wrong kind", odd, less=True, good=False)


def median(figure: Callable[[WrkRun], float], runs: list[WrkRun]) -> float:
    """Return the median of one figure over the rounds."""
    return statistics.median(figure(run) for run in runs)


def gateways(
    table: FloorTable, folder: Path, behind: Behind, arguments: argparse.Namespace
) -> float:
    """Add the gateway's rows; return the number of small requests per CPU second."""
    others = [name for name in ("nginx", "haproxy", "caddy") if shutil.which(name)]
    with ExitStack() as stack:
        names = ["ours", *others]
        up = {name: stack.enter_context(gateway(name, folder, behind)) for name in names}
        runs = drive(GATEWAY, list(up.values()), "https", folder, arguments)
        compare(table, "gateway", GATEWAY, runs, "ours", others)
        ours, small = up["ours"], runs[ONE_HEAD.name, "ours"]
        url = f"https://127.0.0.1:{ours.port}/svc-status"
        full = median(lambda run: run.per_second, small)
        long = 2 * arguments.seconds
        calm = [half_load(ours.pid, url, full, long, folder) for _ in range(arguments.rounds)]
        p99 = median(lambda run: run.p99_ms, calm)
        table.below("gateway: p99 at half load", p99, "ms", P99_MS)
        nginx = up["nginx"]
        url = f"https://127.0.0.1:{nginx.port}/svc-status"
        calm = [half_load(nginx.pid, url, full, long, folder) for _ in range(arguments.rounds)]
        p99 = median(lambda run: run.p99_ms, calm)
        table.add("nginx: p99 at the same load", p99, "ms", less=True)
    small_path, header = "/svc-status", API_KEY + "\r\n"
    with gateway("ours", folder, behind) as ours:
        unread = growth(ours.pid, ours.port, UNREAD, small_path, 1, header, tls=True) / MIB
        table.below("gateway: 400 MB that nobody reads", unread, "MiB", UNREAD_MIB)
    with gateway("ours", folder, behind) as ours:
        idle = growth(ours.pid, ours.port, small_path, small_path, arguments.idle, tls=True) / KIB
        table.below("gateway: an idle TLS connection", idle, "KiB", IDLE_KIB)
    return median(ONE_HEAD.figure, small)


def relays(
    table: FloorTable, folder: Path, behind: Behind, arguments: argparse.Namespace, ours: float
) -> None:
    """Add the relay's row; the relay takes plain HTTP from the game and sends TLS to the server."""
    with relay(folder, behind) as server:
        runs = drive((ONE_HEAD,), [server], "http", folder, arguments)
    figure = median(ONE_HEAD.figure, runs[ONE_HEAD.name, "relay"])
    table.against("relay: small requests", figure, "req/cpu s", figure / ours, "our gateway", 1.0)


def contents(
    table: FloorTable, folder: Path, behind: Behind, arguments: argparse.Namespace
) -> None:
    """Add the content server's rows."""
    with content("ours", folder, behind) as ours, content("nginx", folder, behind) as nginx:
        runs = drive(CONTENT, [ours, nginx], "http", folder, arguments)
        compare(table, "content", CONTENT, runs, ours.name, ["nginx"])
    with content("ours", folder, behind) as ours:
        header = API_KEY + "\r\n"
        each = growth(ours.pid, ours.port, BIG, CONTENT[2].path, STREAMS, header) / MIB
        table.below("content: memory per stream", each, "MiB", STREAM_MIB)


def say_missing() -> None:
    """Print the programs that are not installed; exit if nothing can be measured."""
    gone = [name for name in PACKAGES if shutil.which(name) is None]
    if gone:
        packages = " ".join(PACKAGES[name] for name in gone)
        print(f"not installed: {', '.join(gone)}; install with: apt-get install {packages}")
    if "wrk" in gone or "nginx" in gone:
        raise SystemExit("without wrk and nginx nothing can be measured")


def main() -> None:
    """Measure and print the table; exit with status 1 if a limit is missed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--parts", default="gateway,relay,content")
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--idle", type=int, default=300)
    json_option(options)
    arguments = options.parse_args()
    parts = arguments.parts.split(",")
    say_missing()
    on_the_generators_core()
    table, ours = FloorTable(), 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with behind_all(folder, prepare(folder)) as behind:
            if "gateway" in parts or "relay" in parts:
                ours = gateways(table, folder, behind, arguments)
            if "relay" in parts:
                relays(table, folder, behind, arguments, ours)
            if "content" in parts:
                contents(table, folder, behind, arguments)
    table.print_table()
    raise SystemExit(finish(arguments.json, table.rows))


if __name__ == "__main__":
    main()
