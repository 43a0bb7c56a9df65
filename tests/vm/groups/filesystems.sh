#!/bin/bash
# vm: --drive fresh=1G --drive fresh=1G --drive fresh=1G --drive fresh=1G
# Trims through the service on each filesystem, judged by the kernel's discard counters; what blocks them; what breaks.
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh

n=0
for type in ext4 xfs btrfs; do
    disk=nvme${n}n1
    case $type in
    ext4) mkfs.ext4 -q -F -E nodiscard "/dev/$disk" ;;
    xfs) mkfs.xfs -q -f -K "/dev/$disk" ;;
    btrfs) mkfs.btrfs -q -f -K "/dev/$disk" ;;
    esac
    mkdir -p "/srv/$type"
    mount "/dev/$disk" "/srv/$type"
    # btrfs switches asynchronous discard on by itself from Linux 6.2 on
    dd if=/dev/urandom of="/srv/$type/file" bs=1M count=64 status=none
    sync
    sum=$(md5sum <"/srv/$type/file")
    check "$type: the service sees the new mount" until_true 30 mount_known "/srv/$type"
    before=$(discarded "$disk")
    check "$type: trim" nvmaintctl trim "/srv/$type" --no-verdict --json
    nvmaintctl trim history --json >/root/history.json
    python3 - "$type" "$(($(discarded "$disk") - before))" <<'END' >"/root/$type.txt" || true
import json, sys
r = [x for x in json.load(open("/root/history.json")) if x["mount"] == "/srv/" + sys.argv[1]][-1]
moved = int(sys.argv[2])
said = r.get("discarded_bytes")
good = r["complete"] and said == moved and moved > 700 << 20 and r["requested_bytes"] > 700 << 20
print("good" if good else f"bad: record {r}, counter moved {moved}")
END
    check_is "$type: the disk's discard counter moved by what was said" good "$(cat "/root/$type.txt")"
    echo 3 >/proc/sys/vm/drop_caches # what is compared is on the disk
    check_is "$type: the file is intact" "$sum" "$(md5sum <"/srv/$type/file")"
    n=$((n + 1))
done

# ext4 remembers what it trimmed in whole block groups until it is unmounted: whatever a run does, the record says what the
# disk's counter says.
before=$(discarded nvme0n1)
check "ext4, again without a remount" nvmaintctl trim /srv/ext4 --no-verdict --json
second=$(($(discarded nvme0n1) - before))
nvmaintctl trim history --json >/root/history.json
check_is "ext4: what the second run discarded is told as it was" "$second" "$(python3 -c "
import json
print(json.load(open('/root/history.json'))[-1]['discarded_bytes'])")"
umount /srv/ext4
mount /dev/nvme0n1 /srv/ext4
until_true 30 mount_known /srv/ext4
sleep 3
before=$(discarded nvme0n1)
check "ext4, after a remount" nvmaintctl trim /srv/ext4 --no-verdict --json
third=$(($(discarded nvme0n1) - before))
check_is "ext4: the run after a remount discards everything again" True "$(python3 -c "print($third > 700 << 20)")"

# A dm-crypt mapping without allow-discards, and with it.
modprobe dm-crypt
printf 'secret' | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/nvme3n1 -
printf 'secret' | cryptsetup open /dev/nvme3n1 secret -
mkfs.ext4 -q -F -E nodiscard /dev/mapper/secret
mkdir -p /srv/secret
mount /dev/mapper/secret /srv/secret
check "LUKS without allow-discards: trim.blocked at the mapping" until_true 30 has_finding trim.blocked /srv/secret dm-crypt dm-0
output=$(nvmaintctl trim /srv/secret --no-verdict 2>&1)
check_is "LUKS without allow-discards: a trim by hand is refused" 2 $?
check_has "LUKS: the refusal names the layer" dm-0 "$output"

# Switched off by software.
echo 0 >/sys/block/nvme1n1/queue/discard_max_bytes
check "discard_max_bytes 0: trim.blocked software-limit" until_true 90 has_finding trim.blocked /srv/xfs software-limit nvme1n1
cat /sys/block/nvme1n1/queue/discard_max_hw_bytes >/sys/block/nvme1n1/queue/discard_max_bytes
check "discard_max_bytes restored: the finding goes" until_true 90 sh -c '! nvmaintctl doctor --json | grep -q software-limit'

# A filesystem that a sandboxed service could not see, a wrong name, a busy drive.
output=$(nvmaintctl trim /no/such/place 2>&1)
check_is "a mount that is not there: exit 2" 2 $?
check_has "a mount that is not there: said so" /no/such/place "$output"
check_is "no child of ours is left" "" "$(pgrep nvmaint-fitrim || true)"
finish
