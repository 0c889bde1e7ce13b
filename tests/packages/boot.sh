#!/bin/bash
# boot.sh ROOT SCRIPT: become the systemd of the Debian in ROOT, in namespaces of our own; it runs SCRIPT, a file in ROOT, once,
# and what that says is in ROOT/srv/said.
set -eu
root=$1 script=$2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount --rbind /dev "$root/dev"
# they are this machine's own: nothing that systemd starts may set its kernel or its devices' owners
mount -o remount,bind,ro "$root/proc/sys"
mount -o remount,bind,ro "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t tmpfs none "$root/run"
cat > "$root/etc/systemd/system/evening.service" <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash $script
ExecStopPost=/bin/systemctl exit --no-block
StandardOutput=file:/srv/said
StandardError=inherit
TimeoutStartSec=850
END
export container=svcserver-test
exec chroot "$root" /lib/systemd/systemd --system --unit=evening.service --log-target=null
