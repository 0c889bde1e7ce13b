#!/bin/bash
# boot.sh OUT PYTHON...: become systemd, in namespaces of our own, over a copy of this machine that
# nobody else sees and that is gone afterwards. It runs systemd_evening.sh once, which writes OUT.
set -eu
out=$1 python=$2 here=$(cd "$(dirname "$0")" && pwd)
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/scratch /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/scratch /mnt/root
root=/mnt/root
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
exec bash "$here/../support/systemd.sh" $root /out/said 300 "$here/systemd_evening.sh" "$(dirname "$python")"
