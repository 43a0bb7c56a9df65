#!/bin/bash
# vm: --drive fresh=1G
# A dm-crypt mapping that learns to pass discards: the finding goes, the trim reaches the physical disk.
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh

modprobe dm-crypt
printf 'secret' | cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/nvme0n1 -
printf 'secret' | cryptsetup open /dev/nvme0n1 secret -
mkfs.ext4 -q -F -E nodiscard /dev/mapper/secret
mkdir -p /srv/secret
mount /dev/mapper/secret /srv/secret
check "LUKS without allow-discards: trim.blocked" until_true 30 has_finding trim.blocked /srv/secret dm-crypt dm-0
printf 'secret' | cryptsetup refresh --allow-discards --key-file - secret
check "LUKS with allow-discards: the finding goes" until_true 90 sh -c '! nvmaintctl doctor --json | grep -q dm-crypt'
before=$(discarded nvme0n1)
check "LUKS with allow-discards: trim" nvmaintctl trim /srv/secret --no-verdict
check_is "LUKS with allow-discards: the physical disk discards" True "$(python3 -c "print($(discarded nvme0n1) - $before > 700 << 20)")"

finish
