#!/bin/bash
# systemd.sh ROOT OUTPUT SECONDS SCRIPT...: run the systemd of the Debian in ROOT as process 1 of new namespaces. systemd runs
# SCRIPT once, for at most SECONDS, and writes its output into OUTPUT, a file in ROOT.
set -eu
root=$1 output=$2 seconds=$3
shift 3
mountpoint -q "$root" || mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
# they are this machine's own: nothing that systemd starts may set its kernel or its devices' owners
mount -o remount,bind,ro "$root/dev"
for name in sys sysrq-trigger irq bus fs; do
    if [ -e "$root/proc/$name" ]; then
        mount --bind "$root/proc/$name" "$root/proc/$name"
        mount -o remount,bind,ro "$root/proc/$name"
    fi
done
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t tmpfs none "$root/run"
cat > "$root/etc/systemd/system/evening.service" <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash $*
ExecStopPost=/bin/systemctl exit --no-block
StandardOutput=file:$output
StandardError=inherit
TimeoutStartSec=$seconds
END
export container=svcserver-test
# nothing there may make a device of this machine's, load a module into its kernel, or set its clock, either
exec setpriv --bounding-set=-mknod,-sys_module,-sys_time \
    chroot "$root" /lib/systemd/systemd --system --unit=evening.service --log-target=null
