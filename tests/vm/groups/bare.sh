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

# A drive that stops answering: NVMe over TCP on the loopback interface, which is then taken down under it. The kernel's own
# patience is made longer than the service's deadline, as it is for cloud volumes.
target_of /root/backing
echo 240 >/sys/module/nvme_core/parameters/admin_timeout
check "fabrics: connect" nvme connect -t tcp -a 127.0.0.1 -s 4420 -n test --keep-alive-tmo=600
check "fabrics: the drive is noticed" until_true 60 sh -c 'nvmaintctl drives --json | grep -q nvme0'
pid=$(systemctl show -p MainPID --value nvmaintd)
ip link set lo down
check "stuck drive: ctrl.timeout" until_true 200 has_finding ctrl.timeout nvme0
begun=$(date +%s%N)
nvmaintctl doctor --json >/dev/null
took=$((($(date +%s%N) - begun) / 1000000))
check_is "stuck drive: the bus answers meanwhile (took $took ms)" True "$(python3 -c "print($took < 5000)")"
check_is "stuck drive: the watchdog stayed quiet" "$pid" "$(systemctl show -p MainPID --value nvmaintd)"
# A thread in the kernel outlives SIGKILL: systemd gives up on it after four times TimeoutStopSec, and starts the next beside it.
check "stuck drive: a restart ends in time all the same" timeout 60 systemctl restart nvmaintd
check_is "stuck drive: the new one runs" active "$(systemctl is-active nvmaintd)"
check "stuck drive: and answers" sh -c 'nvmaintctl doctor --json >/root/doctor.json; [ $? -le 1 ]'
ip link set lo up
check "drive back: the finding goes" until_true 200 sh -c '! nvmaintctl doctor --json | grep -q ctrl.timeout'
nvme disconnect -n test >/dev/null 2>&1
check "drive gone: it is not listed any more" until_true 60 sh -c '! nvmaintctl drives --json | grep -q nvme0'

check "the last exit of the package: purge" apt-get purge -y nvmaint
check_is "purged: nothing of ours is left" "" "$(ls -d /etc/nvmaint /var/lib/nvmaint /run/nvmaint /usr/lib/nvmaint /usr/libexec/nvmaint /lib/systemd/system/nvmaintd.service 2>/dev/null || true)"
finish
