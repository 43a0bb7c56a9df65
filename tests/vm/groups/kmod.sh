#!/bin/bash
# vm: --drive fresh=512M --memory 1536 --put build/kmod --put tests/vm/groups/kmod.py --put tests/vm/groups/kmod_truth.py --put tests/vm/groups/kmod_stress.py
# The kernel module: what it counts against what was done, hostile callers, and load and unload under load.
# shellcheck disable=SC2317 # functions are called by their names
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh

modprobe null_blk nr_devices=0 # brings configfs
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
systemctl stop nvmaintd # it would take the module into use
check "the module loads" insmod "/root/kmod/$(uname -r)/nvmaint.ko"
check_is "its node is root's alone" "600 root" "$(stat -c '%a %U' /dev/nvmaint)"
cd /root || exit 1
# A multipath head: requests are those of its hidden paths.
target_of /root/backing
check "fabrics: connect" nvme connect -t tcp -a 127.0.0.1 -s 4420 -n test
check "fabrics: the head is there" until_true 30 test -b /dev/nvme1n1
python3 kmod_truth.py || failed=1
check "it unloads" rmmod nvmaint

# The service: without the module, with it, and without it again.
module=/root/kmod/$(uname -r)/nvmaint.ko
source_of() { nvmaintctl drives --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["flush_source"])'; }
source_is() { [ "$(source_of)" = "$1" ]; }
systemctl start nvmaintd
check "service, no module: diskstats" until_true 30 source_is diskstats
check "service, no module: svc.kmod says why" until_true 90 has_finding svc.kmod nvmaintd.service not-installed
insmod "$module"
check "service, module comes: it is the source within seconds" until_true 20 source_is module
check "service, module there: no svc.kmod" until_true 90 sh -c '! nvmaintctl doctor --json | grep -q svc.kmod'
before=$(awk '{print $16}' /sys/block/nvme0n1/stat)
python3 -c 'import kmod_truth; kmod_truth.durable_writes("nvme0n1", 100)'
flushes=$(($(awk '{print $16}' /sys/block/nvme0n1/stat) - before))
check_is "100 durable writes are 100 flushes" 100 "$flushes"
counted() { awk '/^nvmaint_flush_latency_seconds_count.*nvme0n1/ {print $NF}' /run/nvmaint/metrics.prom; }
counts_at_least() { [ "$(counted)" -ge "$1" ]; }
check "service: the metrics have them in a histogram" until_true 60 counts_at_least "$flushes"
check "service: quantiles are shown" sh -c 'nvmaintctl drives --json | grep -q flush_p99_ms'
source_of_head() { nvmaintctl drives --json | python3 -c '
import json, sys
print([d["flush_source"] for d in json.load(sys.stdin) if "nvme1n1" in d["disks"]])'; }
check_is "service: a multipath head is counted by its path" "['module']" "$(source_of_head)"
check "record: takes the counts along" nvmaintctl record-host /root/recording
check_is "record: of the disk and of the head's path" "nvme0n1.bin nvme1c1n1.bin" \
    "$(cd /root/recording/kmod && printf '%s ' * | sed 's/nvme1c[0-9]*n1/nvme1c1n1/; s/ $//')"
check_has "record: a reader of the recording has the quantiles" flush_p99_ms "$(nvmaintctl drives --root /root/recording --json)"
check "the module cannot be pulled from under the service" sh -c '! rmmod nvmaint'
systemctl stop nvmaintd
check "service stopped: the module unloads" rmmod nvmaint
systemctl start nvmaintd
check "service, module gone: diskstats again" until_true 30 source_is diskstats
systemctl stop nvmaintd

python3 kmod_stress.py "$module" "${NVMAINT_CYCLES:-50}" "${NVMAINT_SEED:-1}" || failed=1
check_is "nothing that begins with a warning is in the kernel's log" "" \
    "$(dmesg --level=warn,err,crit,alert,emerg | grep -iE 'nvmaint|WARNING|BUG|leak' | grep -v 'out-of-tree\|tainting\|verification failed' || true)"
finish
