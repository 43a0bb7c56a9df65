# shellcheck shell=bash
# For the scripts that run in the guest: one line per check, "ok - NAME" or "not ok - NAME: WHY", and helpers.

failed=0
ok() { printf 'ok - %s\n' "$1"; }
not_ok() {
    printf 'not ok - %s: %s\n' "$1" "$2"
    failed=1
}
# check NAME COMMAND...: the command's success, its output shown where it fails.
check() {
    local name=$1 output status=0
    shift
    output=$("$@" 2>&1) || status=$?
    if [ "$status" -eq 0 ]; then
        ok "$name"
    else
        not_ok "$name" "status $status: $(printf '%s' "$output" | tail -n 5 | tr '\n' ' ' | cut -c 1-400)"
    fi
}
# check_is NAME EXPECTED ACTUAL
check_is() {
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1" "expected \"$2\", got \"$(printf '%s' "$3" | tr '\n' ' ' | cut -c 1-400)\""
    fi
}
# check_has NAME NEEDLE HAYSTACK
check_has() {
    case $3 in
    *"$2"*) ok "$1" ;;
    *) not_ok "$1" "\"$2\" is not in \"$(printf '%s' "$3" | tr '\n' ' ' | cut -c 1-400)\"" ;;
    esac
}
# until_true SECONDS COMMAND...
until_true() {
    local deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ "$(date +%s)" -ge "$deadline" ]; then
            return 1
        fi
        sleep 0.5
    done
}
# has_finding ID SUBJECT [REASON [LAYER]]: of the running service
has_finding() {
    (nvmaintctl doctor --json 2>/dev/null || true) | python3 -c '
import json, sys
want = sys.argv[1:]
for f in json.load(sys.stdin)["findings"]:
    have = [f["id"], f["subject"]["name"], f.get("reason", ""), f.get("layer", "")]
    if have[: len(want)] == want:
        sys.exit(0)
sys.exit(1)' "$@"
}
# Wall time of a device sync of the service: a mount is known to it.
mount_known() { nvmaintctl filesystems --json | python3 -c '
import json, sys
sys.exit(not any(f["mount"] == sys.argv[1] for f in json.load(sys.stdin)))' "$1"; }
discarded() { awk '{print $14 * 512}' "/sys/block/$1/stat"; }
json_get() { python3 -c 'import json,sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."):
    v = v[k] if isinstance(v, dict) and k in v else ""
print(v)' "$@"; }
# target_of FILE: a file of 256 MiB offered as an NVMe disk over TCP on the loopback interface, subsystem "test", port 4420.
target_of() {
    local target=/sys/kernel/config/nvmet
    modprobe nvmet-tcp && modprobe nvme-tcp
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    ip link set lo up
    truncate -s 256M "$1"
    mkdir "$target/subsystems/test" "$target/subsystems/test/namespaces/1" "$target/ports/1"
    echo 1 >"$target/subsystems/test/attr_allow_any_host"
    echo 1 >"$target/subsystems/test/namespaces/1/buffered_io"
    echo "$1" >"$target/subsystems/test/namespaces/1/device_path"
    echo 1 >"$target/subsystems/test/namespaces/1/enable"
    echo tcp >"$target/ports/1/addr_trtype"
    echo ipv4 >"$target/ports/1/addr_adrfam"
    echo 127.0.0.1 >"$target/ports/1/addr_traddr"
    echo 4420 >"$target/ports/1/addr_trsvcid"
    ln -s "$target/subsystems/test" "$target/ports/1/subsystems/test"
}
finish() { exit "$failed"; }
