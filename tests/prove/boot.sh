#!/bin/bash
# boot.sh OUT PYTHON...: become systemd, in namespaces of our own, over a copy of this machine that
# nobody else sees and that is gone afterwards. It runs systemd_evening.sh once, which writes OUT.
set -eu
out=$1 python=$2 here=$(cd "$(dirname "$0")" && pwd)
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/scratch /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/scratch /mnt/root
root=/mnt/root
mount -t proc proc $root/proc
mount --bind $root/proc/sys $root/proc/sys
mount --rbind /dev $root/dev
# they are this machine's own: nothing that systemd starts may set its kernel or its devices' owners
mount -o remount,bind,ro $root/proc/sys
mount -o remount,bind,ro $root/dev
mount -t sysfs -o ro sysfs $root/sys
mount -t cgroup2 none $root/sys/fs/cgroup
mount -t tmpfs none $root/run
mount -t tmpfs none $root/tmp
mkdir $root/out
mount --bind "$out" $root/out
# the services' user must reach the checkout and its Python, wherever a developer has them
for path in "$here" "$python" "$(readlink -f "$python")"; do
    while [ "$path" != / ]; do
        chmod o+rX "$root$path"
        path=$(dirname "$path")
    done
done
cat > $root/etc/systemd/system/evening.service <<END
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash $here/systemd_evening.sh $(dirname "$python")
ExecStopPost=/bin/systemctl exit --no-block
StandardOutput=file:/out/said
StandardError=inherit
TimeoutStartSec=300
END
export container=svcserver-test
exec chroot $root /lib/systemd/systemd --system --unit=evening.service --log-target=null
