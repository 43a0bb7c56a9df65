#!/bin/bash
# vm:
# A host without any NVMe drive, and without systemd's trim timer.
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh

check_is "no NVMe drive: the service stays up" active "$(systemctl is-active nvmaintd)"
check_is "no NVMe drive: an empty list" "[]" "$(nvmaintctl drives --json | tr -d '\n ')"
check_has "no NVMe drive: said to people" "NVMe" "$(nvmaintctl drives)"
check "no NVMe drive: doctor judges" sh -c 'nvmaintctl doctor >/root/doctor.txt; [ $? -le 1 ]'
systemctl stop fstrim.timer
rm -f /lib/systemd/system/fstrim.timer /lib/systemd/system/fstrim.service /etc/systemd/system/timers.target.wants/fstrim.timer
systemctl daemon-reload
check "no timer: trim.timer.missing" until_true 90 has_finding trim.timer.missing fstrim.timer
check_is "no timer: the service stays up" active "$(systemctl is-active nvmaintd)"
check "the last exit of the package: purge" apt-get purge -y nvmaint
check_is "purged: nothing of ours is left" "" "$(ls -d /etc/nvmaint /var/lib/nvmaint /run/nvmaint /usr/lib/nvmaint /usr/libexec/nvmaint /lib/systemd/system/nvmaintd.service 2>/dev/null || true)"
finish
