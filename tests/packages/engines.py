"""Container images of PostgreSQL and of a live-state engine, made of Debian's packages.

They replace the images that compose.yaml names, because tests download nothing from image
registries. They accept the same variables and commands.
"""

from pathlib import Path

from tests.packages.support import SUITE, run

DATABASE = """\
#!/bin/sh
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
cd /var/lib/postgresql/data
if [ ! -e PG_VERSION ]; then
    printf %s "$POSTGRES_PASSWORD" > /tmp/password
    "$bin/initdb" -D . -U "$POSTGRES_USER" -E UTF8 --pwfile /tmp/password -A scram-sha-256
    echo "host all all all scram-sha-256" >> pg_hba.conf
    echo "CREATE DATABASE $POSTGRES_DB;" | "$bin/postgres" --single -D . postgres
fi
exec "$bin/postgres" -D . -h '*' -k /tmp
"""


def database() -> str:
    """Build a PostgreSQL image that creates its database from POSTGRES_* variables."""
    folder = "/var/lib/postgresql/data"
    hooks = [
        f'chroot "$1" install -d -o postgres {folder}',
        'chmod 0755 "$1"/usr/local/bin/start',
    ]
    words = ["--user", "postgres", "--entrypoint", '["/usr/local/bin/start"]', "--volume", folder]
    words += ["--stop-signal", "SIGINT"]  # at SIGTERM, PostgreSQL would wait for its last client
    return _image("svc-test-postgresql", "postgresql", hooks, words, DATABASE)


def live() -> str:
    """Build an image of Redis whose programs have the names of Valkey's programs."""
    hooks = [
        'ln -s redis-server "$1"/usr/bin/valkey-server',
        'chroot "$1" install -d -o redis /data',
    ]
    start = '#!/bin/sh\nexec "$@"\n'
    words = ["--user", "redis", "--workingdir", "/data", "--volume", "/data"]
    words += ["--entrypoint", '["/usr/local/bin/start"]']
    hooks.append('chmod 0755 "$1"/usr/local/bin/start')
    # the name that Valkey's image uses
    hooks.append('ln -s start "$1"/usr/local/bin/docker-entrypoint.sh')
    return _image("svc-test-live", "redis-server", hooks, words, start)


def _image(name: str, package: str, hooks: list[str], settings: list[str], start: str) -> str:
    made = run("buildah", "from", "scratch").strip()
    try:
        root = Path(run("buildah", "mount", made).strip())
        script = 'cat > "$1"/usr/local/bin/start <<"END"\n' + start + "END"
        options = [f"--customize-hook={hook}" for hook in (script, *hooks)]
        run("mmdebstrap", "--variant=minbase", f"--include={package}", *options, SUITE, root)
        run("buildah", "umount", made)
        run("buildah", "config", *settings, made)
        run("buildah", "commit", made, name)
    finally:
        run("buildah", "rm", made)
    return f"localhost/{name}"
