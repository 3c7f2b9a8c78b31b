#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Run inside a booted system in which the packages are installed: units, reload, crash, scrub, fstab, removal.
# /root/model is a packed model, /root/plain the original. Says "live: ok" at the end.
set -eEux -o pipefail
export DEBIAN_FRONTEND=noninteractive
trap 'journalctl --no-pager -o cat -n 30' ERR
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
systemctl start brevis-scrub@models.timer
[ -n "$(systemctl show -P NextElapseUSecRealtime brevis-scrub@models.timer)" ]

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

# A user's own mount, under that user's manager: through fusermount3, and back by itself after a kill.
person=34  # backup, whom every Debian has
home=$(getent passwd $person | cut -d : -f 6)
mkdir -p "$home/.config/brevis" /srv/person
chown $person /srv/person
cat >"$home/.config/brevis/mine.toml" <<END
source = "/srv/archives"
mountpoint = "/srv/person"
END
install -d -o $person -m 700 /run/user/$person
# What user@$person.service does where libpam-systemd is installed.
systemd-run --quiet --unit=manager --uid=$person --setenv=HOME="$home" --setenv=XDG_RUNTIME_DIR=/run/user/$person \
  -p Type=notify -p Delegate=yes /lib/systemd/systemd --user
own() { setpriv --reuid $person --regid $person --clear-groups env XDG_RUNTIME_DIR=/run/user/$person "$@"; }
own systemctl --user start brevis-mount@mine
own cat /srv/person/model.safetensors | cmp - /root/plain/model.safetensors
grep -q ' /srv/person fuse.brevis .*user_id=34' /proc/mounts
fails same /srv/person  # not root's: no allow-other
before=$(own systemctl --user show -P MainPID brevis-mount@mine)
kill -9 "$before"
person_back() { own systemctl --user is-active -q brevis-mount@mine && [ "$(own systemctl --user show -P MainPID brevis-mount@mine)" != "$before" ]; }
until_true person_back
own cat /srv/person/model.safetensors | cmp - /root/plain/model.safetensors
own systemctl --user stop brevis-mount@mine
fails grep ' /srv/person ' /proc/mounts
systemctl stop manager
rm -r "$home/.config" /srv/person /run/user/$person

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

# An upgrade leaves a mount alone, a removal ends it; what stays of that goes with the purge.
systemctl start brevis-mount@models
before=$(main_pid)
apt-get install --reinstall -y /root/debs/brevis_*.deb >/root/upgrade.log 2>&1
[ "$(main_pid)" = "$before" ]
same /models
apt-get remove -y brevis libbrevis-dev python3-brevis libbrevis0 >/root/remove.log 2>&1
fails grep 'fuse.brevis' /proc/mounts
fails systemctl is-active brevis-mount@models
left=$(find / -xdev -name '*brevis*' ! -path '/root/*' ! -path '/var/lib/dpkg/*' ! -path '/var/log/*' ! -path '/var/cache/brevis/*' |
  grep -v stamp-brevis-scrub | sort | xargs)
[ "$left" = "/etc/brevis /var/cache/brevis" ]
apt-get purge -y brevis >/root/purge.log 2>&1
rm -r /etc/brevis /srv/archives /models
sed -i '/fuse.brevis/d' /etc/fstab
echo "live: ok"
