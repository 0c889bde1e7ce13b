#!/bin/bash
# Run by the systemd of support/systemd.sh: what packages.md says of the Debian package, an evening under its units, then what
# upgrade.md has an owner paste (upgrade.sh, back.sh, restore.sh), and another evening.
set -u
units="svc-metagame svc-deploy svc-content svc-allowlist svc-gateway"
as_svc() { runuser -u svc -- svcctl "$@" --config /etc/svcserver; }
ready() {
    for _ in $(seq 300); do
        as_svc status > /dev/null 2>&1 && as_svc relay check > /dev/null 2>&1 && return
        sleep 1
    done
    echo "never ready"
}
running() { for unit in $units; do echo "$unit $(systemctl is-active "$unit") $(systemctl show -p MainPID --value "$unit")"; done; }
ip link set lo up
echo "127.0.0.1 $(uname -n)" >> /etc/hosts  # which sudo looks for
echo "enabled: $(systemctl is-enabled svcserver.target)"
runuser -u svc -- svcctl init /etc/svcserver --data /var/lib/svcserver --public-host 127.0.0.1 --owner YourName
echo ALLOWLIST_ALLOW_PRIVATE=1 >> /etc/svcserver/allowlist.env
echo GAMESERVER_MEMORY_GUARD=0 >> /etc/svcserver/deploy.env
systemctl start svcserver.target
ready
running | tee /srv/first
as_svc play --keep
echo "play ended with $?"
version() { dpkg-query -W -f '${Version}' svcserver; }
cd /srv
. ./upgrade.sh
echo "upgrade ended with $?, at $(version)"
ready
running | tee /srv/second
echo "as before: $(grep -Fxc -f /srv/first /srv/second)"
as_svc account create Late
. ./back.sh
echo "back ended with $?, at $(version)"
. ./restore.sh
echo "restore ended with $?, who came since: $(as_svc account list | grep -c Late)"
ready
as_svc play
echo "second play ended with $?"
systemctl stop svcserver.target 'svc-*'
pgrep -u svc -l
echo "left over: $(pgrep -u svc -c)"
