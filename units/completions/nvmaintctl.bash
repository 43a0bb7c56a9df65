# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of nvmaintctl(1) for bash.

_nvmaintctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb='' word words=''
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [[ $word != -* ]]; then
            verb=$word
            break
        fi
    done
    case $verb:$previous in
    *:--root | record-host:record-host)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        return
        ;;
    *:--policy | report:report)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    *:--watch | *:--note) return ;;
    esac
    case $verb in
    '') words='status doctor explain drives filesystems trim report metrics record-host replay policy monitor --help --version' ;;
    doctor | drives | filesystems | explain) words='--root --local --json --help' ;;
    status | monitor) words='--json --help' ;;
    trim)
        words='--watch --no-verdict --json --help'
        if [[ $current != -* ]]; then
            words="history $(findmnt --noheadings --list --real --output TARGET 2>/dev/null)"
        fi
        ;;
    report) words='--note --help' ;;
    metrics) words='--help' ;;
    record-host) words='--keep-identities --help' ;;
    replay)
        words='--policy --json --help'
        if [[ $current != -* ]]; then
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            return
        fi
        ;;
    policy)
        words='check show --root --help'
        if [[ $current != -* && " ${COMP_WORDS[*]:1:COMP_CWORD-1} " == *' check '* ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o filenames -F _nvmaintctl nvmaintctl
