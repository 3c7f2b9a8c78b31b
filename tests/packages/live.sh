#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run inside a booted system in which the packages are installed: units, reload, crash, scrub, fstab, removal.
# /root/model is a packed model, /root/plain the original. Says "live: ok" at the end.
set -eux -o pipefail
export DEBIAN_FRONTEND=noninteractive
until_true() { for _ in $(seq 100); do "$@" && return; sleep 0.1; done; echo "not within 10 s: $*"; exit 1; }
fails() { if "$@"; then echo "succeeded: $*"; exit 1; fi; }
same() { cmp /root/plain/model.safetensors "$1/model.safetensors"; }
main_pid() { systemctl show -P MainPID brevis-mount@models; }

mkdir -p /srv/archives /models /etc/brevis
cp -r /root/model/. /srv/archives/
cat >/etc/brevis/models.toml <<END
source = "/srv/archives"
mountpoint = "/models"
memory = "64MiB"
allow-other = true
END
systemctl start brevis-mount@models
same /models                                     # exit 0 of the start means that it answers
setpriv --reuid 65534 --clear-groups cat /models/model.safetensors | cmp - /root/plain/model.safetensors
systemctl enable brevis-mount@models brevis-scrub@models.timer

cp /srv/archives/model.safetensors.brv /srv/archives/added.safetensors.brv
systemctl reload brevis-mount@models
until_true test -e /models/added.safetensors
rm /srv/archives/added.safetensors.brv

# Killed, it comes back by itself and clears the dead mount.
before=$(main_pid)
kill -9 "$before"
back() { local pid; pid=$(main_pid); [ "$pid" != 0 ] && [ "$pid" != "$before" ] && systemctl is-active -q brevis-mount@models; }
until_true back
same /models
[ "$(grep -c ' /models fuse.brevis ' /proc/mounts)" = 1 ]

systemctl start brevis-scrub@models
cp /srv/archives/model.safetensors.brv /root/keep
printf 'x' | dd of=/srv/archives/model.safetensors.brv bs=1 seek=3000 conv=notrunc status=none
fails systemctl start brevis-scrub@models
systemctl reset-failed
cp /root/keep /srv/archives/model.safetensors.brv
systemctl start brevis-mount@models
systemctl stop brevis-mount@models
fails grep ' /models ' /proc/mounts

# Over itself: the scrub finds the archives in the hidden directory.
echo 'source = "/srv/archives"' >/etc/brevis/place.toml
systemctl start brevis-mount@place
same /srv/archives
systemctl start brevis-scrub@place
systemctl stop brevis-mount@place
[ -e /srv/archives/model.safetensors.brv ]

# fstab, as mount(8) and as systemd's generated unit.
echo '/srv/archives /models fuse.brevis ro,noatime,nodev,nosuid,allow_other,memory=64MiB,nofail,x-systemd.automount=no 0 0' >>/etc/fstab
systemctl daemon-reload
mount -v /models
same /models
umount /models
systemctl start models.mount
same /models
systemctl stop models.mount
mount -t fuse.brevis -o rw,dev,suid /srv/archives /models
same /models
umount /models
mount -t brevis /srv/archives /srv/archives
same /srv/archives
umount /srv/archives
mount -f -t fuse.brevis /srv/archives /models
fails mount -t fuse.brevis /no/such /models
fails mount -t fuse.brevis -o nonsense /srv/archives /models
fails grep 'fuse.brevis' /proc/mounts

# Removed while it serves.
systemctl start brevis-mount@models
apt-get purge -y brevis libbrevis-dev python3-brevis libbrevis0 >/root/purge.log 2>&1
fails grep 'fuse.brevis' /proc/mounts
fails systemctl is-active brevis-mount@models
rm -r /etc/brevis /srv/archives /models
sed -i '/fuse.brevis/d' /etc/fstab
echo "live: ok"
