#!/bin/bash
# Runs in the guest: the story, told by what the installed product itself says. Prints prose for people and lines
# beginning with "@" for the program that started the guest.
set -euo pipefail

db=/var/lib/db
log=/srv/log
say() { printf '%s\n' "$*"; }
chapter() { printf '\n== %s\n' "$*"; }
mark() { printf '@ %s %s\n' "$1" "$(date +%s.%N)"; }
mark_raised() { # name, id, subject: when the service raised it, by its own journal
    printf '@ %s %s\n' "$1" "$(journalctl -q -u nvmaintd -o json --no-pager NVMAINT_FINDING="$2" NVMAINT_SUBJECT="$3" |
        python3 -c 'import json, sys; print(int(json.loads(sys.stdin.readline())["__REALTIME_TIMESTAMP"]) / 1e6)')"
}

# A writer as a database's log is one: small writes, each made durable, at a fixed rate.
job=(--name=commit --size=160M --rw=randwrite --bs=8k --fsync=1 "--rate_iops=${NVMAINT_DEMO_RATE:-50}" --time_based
    --runtime=3600 --fallocate=none --overwrite=1)
fill() { fio "${job[@]}" --filename="$1" --create_only=1 >/dev/null; } # the database's file, written once
writer() { # unit, file
    systemd-run --quiet --unit="$1" fio "${job[@]}" --filename="$2" --output="/root/$1.json" --output-format=json
}

wait_for() { # id subject seconds
    local deadline=$(($(date +%s) + $3))
    # Its exit status says that there are findings, which is no failure here.
    until (nvmaintctl doctor --json 2>/dev/null || true) | python3 -c '
import json, sys
doctor = json.load(sys.stdin)
sys.exit(not any(f["id"] == sys.argv[1] and f["subject"]["name"] == sys.argv[2] for f in doctor["findings"]))' "$1" "$2"; do
        if (($(date +%s) >= deadline)); then
            return 1
        fi
        sleep 1
    done
}

chapter "A database host"
systemctl stop nvmaintd # comes when the databases run, as on a host that it is installed on
mkfs.ext4 -q -F -E nodiscard /dev/nvme0n1
mkfs.ext4 -q -F -E nodiscard /dev/nvme1n1
mkdir -p "$db" "$log"
mount /dev/nvme0n1 "$db"
mount /dev/nvme1n1 "$log"
say "nvme0n1, a client drive that has been in use for long, holds $db."
say "nvme1n1, protected against power loss, holds $log."
liar=
if [ -b /dev/nvme2n1 ]; then
    liar=/srv/liar
    mkfs.ext4 -q -F -E nodiscard /dev/nvme2n1
    mkdir -p "$liar"
    mount /dev/nvme2n1 "$liar"
    say "nvme2n1, a client drive that accepts trims and ignores them, holds $liar."
fi
systemctl is-enabled --quiet fstrim.timer && systemctl is-active --quiet fstrim.timer &&
    say "fstrim.timer is enabled and active. What does its service do?"
systemctl start fstrim.service || true
journalctl -q -u fstrim.service -o cat --no-pager | sed -n '/trimmed/s/^/    fstrim: /p'
say "It ends well, and neither $db nor $log is among what it trimmed."
printf '    sectors discarded so far: nvme0n1 %s, nvme1n1 %s\n' \
    "$(awk '{print $14}' /sys/block/nvme0n1/stat)" "$(awk '{print $14}' /sys/block/nvme1n1/stat)"

chapter "The load: 8 KiB writes, each followed by fsync, on both"
say "The databases' files are written …"
fills=()
for file in "$db/data" "$log/data" ${liar:+"$liar/data"}; do
    fill "$file" &
    fills+=("$!")
done
wait "${fills[@]}"
sync
writer db-writer "$db/data"
writer log-writer "$log/data"
[ -z "$liar" ] || writer liar-writer "$liar/data"
sleep "${NVMAINT_DEMO_RUNNING:-25}" # as on a host whose databases have been running when the service comes
say "systemctl start nvmaintd: it observes, and changes nothing by itself."
systemctl start nvmaintd
nvmaintctl monitor >/root/monitor.log 2>&1 &
monitor=$!
mark before
say "Waiting for it to notice something by itself …"
if wait_for flush.device-stall nvme0n1 240; then
    mark_raised stall-raised flush.device-stall nvme0n1
    say "raised: flush.device-stall on nvme0n1"
else
    say "no stall was reported within 240 s"
    nvmaintctl doctor || true
    exit 1
fi
if wait_for flush.periodic-stall nvme0n1 300; then
    mark_raised periodic-raised flush.periodic-stall nvme0n1
    say "raised: flush.periodic-stall on nvme0n1"
else
    say "the stalls were not reported as periodic within 300 s"
    nvmaintctl doctor || true
    busctl call org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager FlushSeries s nvme0n1 || true
    exit 1
fi
# As much of "before" as the comparison afterwards wants to see.
sleep "${NVMAINT_DEMO_BEFORE:-30}"

chapter "What the service says"
nvmaintctl doctor || true
nvmaintctl status || true

chapter "The cure: $db is trimmed in ranges, under load"
# One drive is trimmed at a time; while one is watched for the verdict, the next one's turn comes.
trim() { # name, mount
    nvmaintctl trim "$2" --json >"/root/trim-$1.json" 2>"/root/trim-$1.txt" &
    jobs_of_ours+=("$!")
    until grep -q trimmed "/root/trim-$1.txt" || ! kill -0 "$!" 2>/dev/null; do
        sleep 0.5
    done
    sed 's/^/    /' "/root/trim-$1.txt"
}
jobs_of_ours=()
mark trim
trim db "$db"
chapter "The same on the protected drive"
mark trim-log
trim log "$log"
[ -z "$liar" ] || trim liar "$liar"
say "Watching the flushes for the verdicts …"
for job_of_ours in "${jobs_of_ours[@]}"; do
    wait "$job_of_ours"
done
mark end
nvmaintctl trim history

chapter "Verdict of the service"
for file in /root/trim-*.json; do
    python3 - "$file" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
e = r["effect"]
print(f"{r['mount']}: {e['verdict']} ({e['why']})")
for name in ("before", "after"):
    s = e[name]
    print(f"    {name:6}  flushes {s['flushes']:6}  usual {s['median_ms']:6.2f} ms  worst second {s['worst_ms']:7.2f} ms"
          f"  stalled {s['stalled_flushes']:5}  bursts {s['episodes']}")
print(f"    requested by the filesystem {r['requested_bytes']}, discarded at the drive {r.get('discarded_bytes')}")
END
done

nvmaintctl report /root/report.html \
    --note "A client drive in use for long (nvme0n1) and one protected against power loss (nvme1n1) carry the same load: small writes, each followed by fsync. The stock trim timer is active and never selects either volume." \
    --note "The service noticed the stalls, named the cause and trimmed $db in ranges while the load went on. The stalls end; what an ordinary flush costs stays."
kill "$monitor" 2>/dev/null || true
say
say "What the service raised and cleared meanwhile:"
grep -E 'flush\.|trim\.effect' /root/monitor.log | sed 's/^/    /' || true
systemctl stop db-writer log-writer
