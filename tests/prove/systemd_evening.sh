#!/bin/bash
# Run by systemd inside boot.sh: what docs/owners/hosting.md says, then an evening under the units.
set -u
bin=$1 names="metagame deploy content allowlist gateway" units=
for name in $names; do units="$units svc-$name"; done
ip link set lo up
useradd --system --home-dir /srv/game --shell /usr/sbin/nologin svc
"$bin/svcctl" init /srv/game --public-host 127.0.0.1 --owner YourName
sed -i s/DRY_RUN=1/DRY_RUN=0/ /srv/game/allowlist.env
echo GAMESERVER_MEMORY_GUARD=0 >> /srv/game/deploy.env
chown -R svc:svc /srv/game
cp /srv/game/host/*.service /srv/game/host/*.timer /srv/game/host/svcserver.target /etc/systemd/system/
systemctl daemon-reload
systemctl start svcserver.target
as_svc() { runuser -u svc -- "$bin/svcctl" "$@" --config /srv/game; }
for _ in $(seq 60); do
    as_svc status > /dev/null 2>&1 && as_svc relay check > /dev/null 2>&1 && break
    sleep 1
done
for name in $names; do
    pid=$(systemctl show -p MainPID --value "svc-$name")
    echo "$name $(systemctl is-active "svc-$name") $(stat -c %U "/proc/$pid")" \
        $(grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$pid/status")
done
as_svc doctor
echo "doctor ended with $?"
as_svc play
echo "play ended with $?"
echo "watch is $(systemctl is-active svc-watch), the timer $(systemctl is-active svc-backup.timer)"
as_svc alerts add hook --form json --url http://127.0.0.1:1/ --set PRIVATE=1 > /dev/null
for _ in $(seq 30); do
    sleep 1
    grep -q '"hook"' /srv/game/alert-channels.json && break
done
echo "channels: $(grep -o '"name":"[a-z]*"' /srv/game/alert-channels.json)"
# the night's work lets everybody else go first, which would never end where other tests run; what
# the unit itself runs is the same but for that (svcctl backup nightly, tests/ctl/test_units.py)
mkdir -p /run/systemd/system/svc-backup.service.d
printf '[Service]\nExecStart=\nExecStart=%s/svcctl backup now --prove --config /srv/game\n' "$bin" \
    > /run/systemd/system/svc-backup.service.d/now.conf
systemctl daemon-reload
systemctl start svc-backup
echo "backup ended with $?: $(as_svc backup list)"
nft list table inet svc_gameports
game_servers() { curl -s "127.0.0.1:$(sed -n s/^PORT=//p /srv/game/deploy.env)/gameservers"; }
before=$(game_servers) first=$(systemctl show -p MainPID --value svc-deploy)
systemctl restart svc-deploy
for _ in $(seq 30); do
    sleep 1
    after=$(game_servers) && break
done
echo "of $before there is $after"
[ "$(systemctl show -p MainPID --value svc-deploy)" != "$first" ] &&
    grep -q '"city"' <<< "$before" && [ "$before" = "$after" ] && echo "game servers ran on"
killed=$(systemctl show -p MainPID --value svc-gateway)
kill -9 "$killed"
for _ in $(seq 30); do
    sleep 1
    as_svc relay check && break
done
[ "$(systemctl show -p MainPID --value svc-gateway)" != "$killed" ] && echo "gateway came back"
systemctl stop svcserver.target svc-watch $units
pgrep -u svc -l
echo "left over: $(pgrep -u svc -c)"
