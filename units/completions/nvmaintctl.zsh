#compdef nvmaintctl
# SPDX-License-Identifier: Apache-2.0
# Completion of nvmaintctl(1) for zsh.

_nvmaintctl() {
  local context state line curcontext="$curcontext"
  local -a verbs json source
  verbs=(
    'status:state of drives, filesystems and trims at a glance'
    'doctor:every finding with its evidence and its fix'
    'explain:one finding in full'
    'drives:NVMe drives'
    'filesystems:filesystems and whether trim reaches the disk'
    'trim:trim one filesystem in ranges and tell whether it helped'
    'report:write a page with the flush latency of the last minutes'
    'metrics:metrics in Prometheus text format'
    'record-host:record this host for a bug report or a test'
    'replay:run the judgement over recordings'
    'policy:check or show the policy'
    'monitor:print findings as they are raised and cleared'
  )
  json=('--json[print JSON]' '--help[print help]')
  source=('--root[judge the recording in this folder]:folder:_directories' '--local[read this host here]' $json)

  _arguments -C '--help[print help]' '--version[print the version]' '1:verb:->verb' '*::argument:->argument'
  case $state in
    verb) _describe verb verbs ;;
    argument)
      case $words[1] in
        status|monitor) _arguments $json ;;
        doctor|drives|filesystems) _arguments $source ;;
        explain) _arguments $source '1:finding id:' ;;
        trim)
          _arguments $json '--watch[seconds to watch the flushes afterwards]:seconds:' \
            '--no-verdict[do not watch the flushes afterwards]' \
            '1:mount point:(history ${(f)"$(findmnt --noheadings --list --real --output TARGET 2>/dev/null)"})' ;;
        report) _arguments '*--note[paragraph for the top of the page]:text:' '--help[print help]' '1:file:_files' ;;
        metrics) _arguments '--help[print help]' ;;
        record-host)
          _arguments '--keep-identities[leave serial numbers and host names]' '--help[print help]' '1:folder:_directories' ;;
        replay) _arguments $json '--policy[policy file to decide by]:file:_files' '*:recording:_directories' ;;
        policy)
          _arguments '1:what:(check show)' '--root[where the policy is]:folder:_directories' '--help[print help]' \
            '*:file:_files' ;;
      esac ;;
  esac
}

_nvmaintctl "$@"
