#!/bin/bash
# vm: --put build/package
# The package's life on a host: an upgrade under a running service, and one under a service that is off.
set -uo pipefail
# shellcheck source=lib.sh
. /root/lib.sh

next() { # VERSION: the package that is there, under a later number
    rm -rf /root/next
    dpkg-deb -R "$(echo /root/package/nvmaint_*.deb)" /root/next
    sed -i "s/^Version: .*/Version: $1/" /root/next/DEBIAN/control
    dpkg-deb --build /root/next "/root/nvmaint_$1.deb" >/dev/null
}
pid() { systemctl show -p MainPID --value nvmaintd; }

printf 'schema = 1\n[trim]\nminimum_spacing = "30d"\n' >/etc/nvmaint/policy.toml
echo kept >/var/lib/nvmaint/kept
before=$(pid)
next 9.1
check "upgrade: apt installs it" apt-get install -y /root/nvmaint_9.1.deb
check_is "upgrade: the new version is there" 9.1 "$(dpkg-query -W -f '${Version}' nvmaint)"
check "upgrade: the service runs the new files" until_true 60 sh -c "[ \$(systemctl show -p MainPID --value nvmaintd) -ne $before ] && systemctl is-active nvmaintd"
check_is "upgrade: it stays enabled" enabled "$(systemctl is-enabled nvmaintd)"
check_has "upgrade: the host's own policy is kept" 30d "$(cat /etc/nvmaint/policy.toml)"
check_is "upgrade: so is the state" kept "$(cat /var/lib/nvmaint/kept)"
check "upgrade: the service answers" until_true 30 sh -c 'nvmaintctl doctor --json; [ $? -le 1 ]'
systemctl disable --now nvmaintd
next 9.2
check "upgrade of a service that is off: apt installs it" apt-get install -y /root/nvmaint_9.2.deb
check_is "upgrade of a service that is off: it stays off" "inactive disabled" "$(systemctl is-active nvmaintd) $(systemctl is-enabled nvmaintd)"
check "removed: the state stays for a later installation" apt-get remove -y nvmaint
check "removed: state and policy are there" test -s /etc/nvmaint/policy.toml -a -s /var/lib/nvmaint/kept
check "installed again" apt-get install -y "$(echo /root/package/nvmaint_*.deb)"
finish
