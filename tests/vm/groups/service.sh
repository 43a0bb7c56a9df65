#!/bin/bash
# vm: --drive fresh=1G --drive slowtrim=512M --qemu "-drive driver=null-co,size=64M,if=none,id=odd -device nvme,drive=odd,id=odd,addr=0x1e,serial=../x-{0}%s/"
# The service as a neighbour: policy, reload, privileges, authorisation, being killed, being started twice, hostile surroundings.
# shellcheck disable=SC2317 # functions are called by their names
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh
main_pid() { systemctl show -p MainPID --value nvmaintd; }

check_is "the service runs" active "$(systemctl is-active nvmaintd)"
check_is "in mode observe" 's "observe"' "$(busctl get-property org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Mode)"
check "it introspects" busctl introspect org.nvmaint1 /org/nvmaint1
check_has "its objects are listed" /org/nvmaint1/drive/ "$(busctl tree --list org.nvmaint1)"
# A drive with a serial number that is neither a bus path nor a file name.
odd_serial='../x-{0}%s/'
odd_path() { busctl tree --list org.nvmaint1 | grep '/drive/' | while read -r path; do
    if busctl get-property org.nvmaint1 "$path" org.nvmaint1.Drive Serial | grep -qF "\"$odd_serial\""; then
        echo "$path"
    fi
done; }
has_odd() { [ -n "$(odd_path)" ]; }
check "hostile serial number: the drive is on the bus" until_true 30 has_odd
first_path=$(odd_path)
check_is "hostile serial number: its path has no byte that a path may not have" "" "$(printf '%s' "$first_path" | tr -d 'A-Za-z0-9_/')"
check_is "hostile serial number: one object, no folder in between" 4 "$(printf '%s' "$first_path" | tr -dc / | wc -c)"
check "hostile serial number: it introspects" busctl introspect org.nvmaint1 "$first_path"
pci=$(basename "$(readlink -f /sys/class/nvme/nvme2/device)")
echo 1 >"/sys/bus/pci/devices/$pci/remove"
check "hostile serial number: unplugged, it goes" until_true 30 sh -c '! nvmaintctl drives --json | grep -qF "../x-{0}%s/"'
echo 1 >/sys/bus/pci/rescan
check "hostile serial number: plugged again, it comes back" until_true 60 has_odd
check_is "hostile serial number: under the same path" "$first_path" "$(odd_path)"

check_is "unit file is sound" "" "$(systemd-analyze verify --man=no /lib/systemd/system/nvmaintd.service 2>&1 | grep -i nvmaintd || true)"

# Without the kernel module: said, and the service stays up.
check_has "which source the flush latency has" diskstats "$(nvmaintctl drives --json)"

# Policy
mkdir -p /etc/nvmaint/policy.d
bad() { # NAME NEEDLE: the file policy.d/10-test.toml stands; check refuses, reload refuses, the old policy stays
    local output
    output=$(nvmaintctl policy check 2>&1)
    check_is "policy, $1: check exits 2" 2 $?
    check_has "policy, $1: the place is named" "$2" "$output"
    check_is "policy, $1: one line" 1 "$(printf '%s\n' "$output" | wc -l)"
    systemctl reload nvmaintd
    sleep 1
    check_is "policy, $1: the old policy stays" 's "maintain"' \
        "$(busctl get-property org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Mode)"
}
printf 'schema = 1\nmode = "maintain"\n[trim]\nminimum_spacing = "30d"\n' >/etc/nvmaint/policy.toml
check "policy: a good one passes" nvmaintctl policy check
check "policy: reload" systemctl reload nvmaintd
check "policy: it is in force" until_true 10 sh -c 'busctl get-property org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Mode | grep -q maintain'
printf 'schema = 1\n[flush]\ntarget_p98 = "5ms"\n' >/etc/nvmaint/policy.d/10-test.toml
bad "unknown key" 10-test.toml:3:1
printf 'schema = 1\nmode = 7\n' >/etc/nvmaint/policy.d/10-test.toml
bad "wrong type" 10-test.toml:2:
printf 'schema = 1\n[flush]\ntarget_p99 = "5 bananas"\n' >/etc/nvmaint/policy.d/10-test.toml
bad "wrong unit" 10-test.toml:3:
head -c 1000000 /dev/urandom >/etc/nvmaint/policy.d/10-test.toml
bad "a megabyte of noise" 10-test.toml
rm /etc/nvmaint/policy.d/10-test.toml
mkdir /etc/nvmaint/policy.d/10-test.toml
bad "a folder in its place" 10-test.toml
rmdir /etc/nvmaint/policy.d/10-test.toml
printf 'schema = 1\nmode = "observe"\n' >/etc/nvmaint/policy.toml
systemctl reload nvmaintd
check "policy: back to observe" until_true 10 sh -c 'busctl get-property org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Mode | grep -q observe'
check "policy: what show prints is a policy" sh -c 'nvmaintctl policy show >/root/shown.toml && nvmaintctl policy check /root/shown.toml'

# A second instance
output=$(/usr/libexec/nvmaint/nvmaintd 2>&1)
check_is "started twice: exit 1" 1 $?
check_has "started twice: says so" "another nvmaintd" "$output"
check_is "started twice: the first goes on" active "$(systemctl is-active nvmaintd)"

# Authorisation
mkfs.ext4 -q -F -E nodiscard /dev/nvme0n1
mkdir -p /srv/db && mount /dev/nvme0n1 /srv/db
until_true 30 mount_known /srv/db
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
check "reading needs no privilege" as_nobody busctl call org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Doctor
output=$(as_nobody busctl call --allow-interactive-authorization=no org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Trim 'sa{sv}' /srv/db 0 2>&1)
check_is "a stranger's trim is refused" 1 $?
check_has "and asks for interactive authorisation" "nteractive auth" "$output"
check "root needs no polkit" busctl call org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Trim 'sa{sv}' /srv/db 1 watch t 0
systemctl stop polkit
check "root needs no polkit that runs" busctl call org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Reload

# Killed in the middle of a trim: a drive that takes seconds for each range
mkfs.ext4 -q -F -E nodiscard /dev/nvme1n1
mkdir -p /srv/slow && mount /dev/nvme1n1 /srv/slow
until_true 30 mount_known /srv/slow
nvmaintctl trim /srv/slow --no-verdict >/root/slow.txt 2>&1 &
check "slow trim: under way" until_true 20 pgrep nvmaint-fitrim
check "slow trim: the marker is on disk" until_true 5 test -s /var/lib/nvmaint/trim-marker.json
before_pid=$(main_pid)
kill -9 "$before_pid"
check "killed: systemd starts it again" until_true 30 sh -c "[ \$(systemctl show -p MainPID --value nvmaintd) -ne 0 ] && [ \$(systemctl show -p MainPID --value nvmaintd) -ne $before_pid ]"
check "killed: no child is left" until_true 60 sh -c '! pgrep nvmaint-fitrim'
check "killed: the new one knows that a trim was interrupted" until_true 60 has_finding trim.deferred /srv/slow
check_has "killed: it is in the history" interrupted "$(nvmaintctl trim history --json)"
check "killed: a new trim goes on to the end" nvmaintctl trim /srv/slow --no-verdict
check "killed: then the finding is gone" until_true 30 sh -c '! nvmaintctl doctor --json | grep -q trim.deferred'
check "killed: and the marker too" until_true 10 test ! -e /var/lib/nvmaint/trim-marker.json

# Cancelled
umount /srv/slow && mount /dev/nvme1n1 /srv/slow
until_true 30 mount_known /srv/slow
sleep 3
nvmaintctl trim /srv/slow --no-verdict >/root/slow.txt 2>&1 &
trim=$!
until_true 20 pgrep nvmaint-fitrim
sleep 1
kill -INT "$trim"
wait "$trim"
check_is "cancelled with Ctrl-C: exit 1" 1 $?
check "cancelled: no child is left" until_true 60 sh -c '! pgrep nvmaint-fitrim'
check "cancelled: no marker is left" until_true 10 test ! -e /var/lib/nvmaint/trim-marker.json

# A blocked worker: the loop and the bus go on (the stopped process stands for a device that does not answer)
check "stop while idle" timeout 20 systemctl stop nvmaintd
check_is "stopped cleanly" success "$(systemctl show -p Result --value nvmaintd)"

# Privileges: without CAP_SYS_ADMIN every admin command is refused
mkdir -p /run/systemd/system/nvmaintd.service.d
printf '[Service]\nCapabilityBoundingSet=CAP_DAC_READ_SEARCH\nCapabilityBoundingSet=~CAP_SYS_ADMIN\nRestart=no\n' >/run/systemd/system/nvmaintd.service.d/test.conf
systemctl daemon-reload
check "no CAP_SYS_ADMIN: it starts" systemctl start nvmaintd
check "no CAP_SYS_ADMIN: svc.privilege" until_true 60 has_finding svc.privilege nvmaintd.service
check_has "no CAP_SYS_ADMIN: the capability is named" CAP_SYS_ADMIN "$(nvmaintctl explain svc.privilege)"
check_is "no CAP_SYS_ADMIN: health is unknown, not bad" unknown "$(nvmaintctl drives --json | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["health"])')"
rm /run/systemd/system/nvmaintd.service.d/test.conf
systemctl daemon-reload && systemctl restart nvmaintd

check "with its rights back it starts" until_true 30 sh -c 'busctl status org.nvmaint1'

# Node modes: the controller's node is root's alone, its namespaces' are the disk group's. A collector in that group with the
# capability reads through the namespace's node; one without it is told what it lacks.
check_is "node modes: as udev makes them" "600 root, 660 disk" "$(stat -c '%a %U' /dev/nvme0), $(stat -c '%a %G' /dev/nvme0n1)"
as_collector() { systemd-run -q --pipe --wait -p User=nobody -p SupplementaryGroups=disk "$@"; }
as_collector -p AmbientCapabilities=CAP_SYS_ADMIN sh -c ': </dev/nvme0' 2>/dev/null
check_is "node modes: the controller's node is refused to it" 2 $?
serial_and_health() { python3 -c '
import json, sys
d = [d for d in json.load(sys.stdin) if d["name"] == "nvme0"][0]
print(d["serial"], d["health"])'; }
until_true 30 sh -c 'nvmaintctl drives --json | grep -q vm0'
as_root=$(nvmaintctl drives --json | serial_and_health)
check_has "node modes: root sees the drive" vm0 "$as_root"
check_is "node modes: so does a member of disk with CAP_SYS_ADMIN" "$as_root" \
    "$(as_collector -p AmbientCapabilities=CAP_SYS_ADMIN nvmaintctl drives --local --json | serial_and_health)"
check_is "node modes: without CAP_SYS_ADMIN the health is unknown" unknown \
    "$(as_collector -p AmbientCapabilities=CAP_SYS_RAWIO nvmaintctl drives --local --json | serial_and_health | awk '{print $NF}')"
check_has "node modes: and svc.privilege names it" CAP_SYS_ADMIN \
    "$(as_collector -p AmbientCapabilities=CAP_SYS_RAWIO nvmaintctl doctor --local | grep -A4 svc.privilege)"

# In a container: PID 1 of its own namespace, told by its environment, without systemd behind it
systemctl stop nvmaintd
mkdir -p /run/ctr
env -i PATH=/usr/bin:/bin container=lxc DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nonexistent \
    unshare --pid --fork --mount-proc /usr/libexec/nvmaint/nvmaintd --runtime-directory /run/ctr --state-directory /run/ctr \
    >/root/container.log 2>&1 &
container=$!
sleep 8
check "container: it stays up" kill -0 "$container"
check_has "container: it says that it has no bus" "No D-Bus service" "$(cat /root/container.log /dev/null; journalctl -b -q -o cat -t nvmaintd --no-pager | tail -n 20)"
pkill -P "$container" nvmaintd
check_is "container: doctor knows its role" 1 "$(env -i PATH=/usr/bin:/bin container=lxc unshare --pid --fork --mount-proc sh -c 'nvmaintctl doctor --local --json' | grep -c svc.role)"

# State disk full
systemctl start nvmaintd
mkdir -p /run/full && mount -t tmpfs -o size=64k tmpfs /var/lib/nvmaint && head -c 65536 /dev/zero >/var/lib/nvmaint/fill 2>/dev/null
systemctl restart nvmaintd
until_true 30 mount_known /srv/db
sleep 3
output=$(nvmaintctl trim /srv/db --no-verdict 2>&1)
check_is "state disk full: a trim without a durable marker is not begun" 1 $?
check_has "state disk full: said so" "marker" "$output"
umount /var/lib/nvmaint
systemctl restart nvmaintd
check_is "at the end it runs" active "$(systemctl is-active nvmaintd)"
check_is "nothing in the journal says assertion" "" "$(journalctl -b -q -o cat -u nvmaintd --no-pager | grep -iE 'assert|terminate called|sanitizer' || true)"
finish
