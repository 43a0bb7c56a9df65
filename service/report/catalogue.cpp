#include "catalogue.hpp"

#include <algorithm>
#include <array>

namespace nvmaint::report {

namespace {

constexpr std::array entries{
    // ---- trim: the timer ----
    CatalogueEntry{"trim.timer.disabled",
                   "fstrim.timer exists but is not enabled, or is enabled and was not started. "
                   "Nothing runs fstrim by itself on this host, unless another agent was found.",
                   "systemctl enable --now fstrim.timer"},
    CatalogueEntry{
        "trim.timer.masked",
        "fstrim.timer is masked: somebody linked it to /dev/null, and systemd refuses to "
        "start it.",
        "Find out who masked it and why; then: systemctl unmask fstrim.timer && "
        "systemctl enable --now fstrim.timer"},
    CatalogueEntry{
        "trim.timer.missing",
        "systemd knows no fstrim.timer. The distribution does not ship it, or util-linux "
        "is installed without its units.",
        "Install the package with fstrim.timer (util-linux), or let nvmaint trim: mode = "
        "\"maintain\" in /etc/nvmaint/policy.toml."},
    CatalogueEntry{"trim.timer.condition-unmet",
                   "fstrim.timer is enabled, but a Condition...= of the timer does not hold, so "
                   "systemd silently does not start it. The evidence names the condition. Old "
                   "util-linux asks for /etc/fstab, for example, though fstrim no longer needs it.",
                   "Clear the condition in a drop-in (systemctl edit fstrim.timer), or bring about "
                   "what it asks for."},
    CatalogueEntry{"trim.timer.starved",
                   "The timer elapses, but the host is never up, or never idle, when it would run.",
                   "Set Persistent=true in a drop-in, or choose a time at which the host is up."},
    CatalogueEntry{"trim.timer.never-fired",
                   "The timer is enabled and active, and yet neither systemd nor the journal knows "
                   "of a run, although the host has been up past a time at which it was due. The "
                   "stamp file below /var/lib/systemd/timers is no proof of a run: systemd creates "
                   "it when the timer is first started.",
                   "systemctl start fstrim.service once and watch its journal; then see why the "
                   "timer does not elapse (systemctl list-timers fstrim.timer)."},
    CatalogueEntry{
        "trim.timer.overdue",
        "The last run is longer ago than the timer's calendar, accuracy and random delay "
        "allow, and the host was up to do it.",
        "systemctl status fstrim.timer; systemctl restart fstrim.timer"},
    CatalogueEntry{
        "trim.timer.rescheduled",
        "The next run was moved into the future again and again without a run in between, "
        "each time after systemd was reloaded: with a large random delay a reload draws "
        "the delay anew.",
        "Lower RandomizedDelaySec=, or set FixedRandomDelay=true in a drop-in."},
    CatalogueEntry{"trim.timer.next-elapse-implausible",
                   "The time at which systemd means to run the timer next cannot follow from its "
                   "calendar: usually the clock was wrong when it was computed.",
                   "systemctl restart fstrim.timer"},
    // ---- trim: the service ----
    CatalogueEntry{"trim.service.failed",
                   "The last run of fstrim.service failed. fstrim exits 32 when every filesystem "
                   "failed and 64 when some did (fstrim(8)).",
                   "journalctl -u fstrim.service shows which filesystem, and why."},
    CatalogueEntry{"trim.service.noop",
                   "fstrim.service ran and succeeded, but trimmed nothing although there are "
                   "filesystems it could trim: its list leaves them out, or a sandbox hides them.",
                   "Compare its ExecStart= (systemctl cat fstrim.service) with the mounted "
                   "filesystems."},
    // ---- trim: coverage and stack ----
    CatalogueEntry{"trim.not-covered",
                   "Nothing trims this filesystem. The reason says why fstrim passes it over: "
                   "not-in-fstab (fstrim reads the first non-empty list it is given and no other; "
                   "this mount is not in it), read-only-view (the service sees it read-only), "
                   "duplicate (the same filesystem is trimmed under another mount), opted-out "
                   "(X-fstrim.notrim in fstab), unsupported-filesystem.",
                   "Add the mount to /etc/fstab, or let nvmaint trim it: mode = \"maintain\" in "
                   "/etc/nvmaint/policy.toml, or by hand: nvmaintctl trim MOUNT"},
    CatalogueEntry{"trim.blocked",
                   "A discard cannot get through: the layer that is named says that it takes none "
                   "while the device below it does. Reasons: dm-crypt, lvm, thin, md, usb-bridge, "
                   "virtual-disk, device, kernel, software-limit (discard_max_bytes was set to 0).",
                   "Open the layer that is named, and read first what that gives away: discards "
                   "through dm-crypt show which blocks are unused."},
    CatalogueEntry{"trim.effect",
                   "What the last trim did to the drive's flushes: the same load measured before "
                   "and after, judged by the number of stalls. helped, no-change, worse, or "
                   "not-comparable where the load changed or too little was seen. A drive whose "
                   "flushes never stalled has nothing to be cured of: no-change.",
                   ""},
    CatalogueEntry{
        "trim.failed.fs-error",
        "Trimming the filesystem fails on its own metadata: it is damaged. That is no "
        "fault of the drive or of the trim, which only came across it.",
        "Back up what matters first, for a repair may lose data; then check it unmounted, "
        "without changing anything (xfs_repair -n, fsck -n)."},
    // ---- trim: others and ourselves ----
    CatalogueEntry{"trim.other-agent",
                   "Somebody else trims this filesystem: a timer of its own, a cron job, or the "
                   "filesystem itself. nvmaint leaves it alone.",
                   ""},
    CatalogueEntry{
        "trim.online-discard",
        "The filesystem is mounted with discard: each freed extent is discarded at once. "
        "That keeps the drive informed, and can delay commits on drives that discard "
        "slowly.",
        "Where commits stall: mount without discard, and trim at quiet hours instead."},
    CatalogueEntry{"trim.deferred",
                   "A trim that is due was put off, for example while an array below rebuilds. It "
                   "is taken up again when the cause is gone.",
                   ""},
    CatalogueEntry{"trim.quarantined",
                   "A trim of this filesystem was cut off: by a crash of the service, or by the "
                   "host going down. If the drive itself hangs in trims, trimming again at each "
                   "start would hang the host again, so nvmaint does not do it by itself.",
                   "Look for NVMe errors in the kernel's log of that boot (journalctl -k -b -1), "
                   "then trim by hand when somebody is watching: nvmaintctl trim MOUNT"},
    // ---- flush ----
    CatalogueEntry{
        "flush.device-stall",
        "Flushes take more than four times as long as usual on this drive, while neither "
        "its writes nor its queue explain that: the drive is busy with itself. Commits "
        "of a database wait for flushes. On client drives the usual cause is garbage "
        "collection with too few free blocks: space that was never trimmed.",
        "See whether the filesystems on the drive are trimmed: nvmaintctl filesystems"},
    CatalogueEntry{"flush.periodic-stall",
                   "The stalls of the drive's flushes come back at a rhythm: the drive collects "
                   "garbage, fills its free blocks, and starts again. Depth, length and period are "
                   "in the evidence.",
                   "Trim the filesystems on the drive, then watch the verdict: nvmaintctl trim "
                   "MOUNT"},
    CatalogueEntry{"flush.degraded",
                   "A flush takes clearly longer than it did on this drive when the baseline was "
                   "learned. Judged against a baseline only; without one nothing is claimed. "
                   "Critical when the policy sets flush.target_p99 and it is missed.",
                   "Compare firmware, temperature and load with the time of the baseline."},
    CatalogueEntry{"flush.suppressed",
                   "The kernel was told not to send flushes (queue/write_cache says write through) "
                   "to a drive that has a volatile write cache. Committed data can be lost when "
                   "power fails.",
                   "echo 'write back' > /sys/block/DISK/queue/write_cache, and remove what sets it "
                   "to write through"},
    CatalogueEntry{"flush.durability-unknown",
                   "A flush took as long as the NVMe driver waits before it resets the drive. On "
                   "a path of a multipath disk such a flush is reported as done without having "
                   "been sent again, so nobody knows whether what was committed then is on the "
                   "drive.",
                   "Check the database against a replica or its own checksums; journalctl -k -g "
                   "nvme has the reset."},
    CatalogueEntry{"flush.telemetry-unavailable",
                   "The kernel does not count flushes for this disk (Linux counts them since 5.5), "
                   "so nothing is said about its flush times.",
                   ""},
    // ---- health ----
    CatalogueEntry{"health.spare-low",
                   "The spare capacity of the drive is below the threshold that its maker set "
                   "(critical warning bit 0, or spare below a threshold of 1 to 100).",
                   "Replace the drive soon; see that its data exist elsewhere."},
    CatalogueEntry{
        "health.reliability-degraded",
        "The drive reports that its reliability is degraded (critical warning bit 2). "
        "A warning where it is only worn: used up by its rated life, with full spare and "
        "no media errors. Critical otherwise.",
        "Plan to replace it; when critical, move the data now."},
    CatalogueEntry{"health.read-only",
                   "The drive has put its media into read-only mode (critical warning bit 3).",
                   "Save the data and replace the drive."},
    CatalogueEntry{
        "health.dead",
        "The drive answers, but is no longer what it was: its firmware reports a failure "
        "mode or its capacity collapsed.",
        "Replace the drive."},
    CatalogueEntry{
        "health.plp-failed",
        "The drive's backup for its volatile memory failed (critical warning bit 4): the "
        "capacitors that make its cache safe no longer do.",
        "Replace the drive; until then a power failure can lose committed data."},
    CatalogueEntry{"health.endurance-exceeded",
                   "The drive has used up the life its maker rated it for (percentage used at 100 "
                   "or more). Many go on for long; some models turn read-only soon after.",
                   "Plan to replace it."},
    CatalogueEntry{"health.wear-forecast", "When the drive's rated life will be used up.", ""},
    CatalogueEntry{"health.media-errors",
                   "The drive counted errors of data integrity that it could not recover.",
                   "Check the data (scrub, backup), and replace the drive if the count grows."},
    CatalogueEntry{"health.temperature",
                   "The drive is as hot as its own warning (warning) or critical (critical) limit.",
                   "Look after airflow and neighbours; the drive slows itself down meanwhile."},
    CatalogueEntry{"health.temp.stuck", "The reported temperature never changes.", ""},
    CatalogueEntry{"health.temp.not-reported",
                   "The drive reports no temperature: 0 kelvin stands for that. Usual for virtual "
                   "drives.",
                   ""},
    CatalogueEntry{"health.thermal-throttled", "The drive slowed down because of heat.",
                   "Look after airflow."},
    CatalogueEntry{"health.log-implausible",
                   "The health log contradicts itself; what it says is not used.", ""},
    CatalogueEntry{"health.errlog-noise",
                   "The drive's error log grows by commands that it does not know, and by no error "
                   "of its own.",
                   ""},
    CatalogueEntry{"health.unsafe-shutdown", "The drive lost power without being told before.",
                   "Look for power failures and hard resets; without power-loss protection check "
                   "what was committed last."},
    CatalogueEntry{"health.self-test-failed", "A self-test of the drive failed.",
                   "Save the data and replace the drive."},
    CatalogueEntry{"health.firmware", "The firmware of the drive is known for a fault.",
                   "Update it as its maker says."},
    CatalogueEntry{"health.link-degraded",
                   "The drive's PCIe link runs slower or narrower than it could.",
                   "Reseat the drive; check slot and cable."},
    // ---- controller ----
    CatalogueEntry{"ctrl.removed", "A controller that was there is gone.",
                   "Look at the kernel's log: journalctl -k -g nvme"},
    CatalogueEntry{"ctrl.reset-loop", "The kernel resets this controller again and again.",
                   "Save the data; look at the kernel's log: journalctl -k -g nvme"},
    CatalogueEntry{"ctrl.timeout",
                   "The controller has not answered an admin command for longer than it should. "
                   "The service waits in a thread of its own and goes on watching the others; it "
                   "does not cancel the command, for that would reset the controller.",
                   "Look at the kernel's log: journalctl -k -g nvme"},
    CatalogueEntry{"ctrl.log-unsupported",
                   "The controller does not have a log page that was asked for. It is not asked "
                   "again.",
                   ""},
    CatalogueEntry{"ctrl.no-namespace",
                   "The controller serves no namespace: there is no disk to look after.", ""},
    CatalogueEntry{"ctrl.format-unusable",
                   "A namespace is formatted in a way that the kernel cannot use (metadata within "
                   "the data), so its disk has size 0.",
                   "Format it anew with a format that has no metadata. That loses all its data."},
    // ---- identity ----
    CatalogueEntry{"ident.not-unique",
                   "Two drives give the same identity. They are told apart by where they are "
                   "plugged in.",
                   ""},
    CatalogueEntry{"ident.bad-string",
                   "The drive's model, serial number or firmware revision holds bytes that are no "
                   "text; they are shown as \\xNN.",
                   ""},
    CatalogueEntry{
        "ident.head-vs-path",
        "The number in the disk's name is not that of its controller: with multipath the "
        "disk is named after its subsystem. Health is read from the controller that "
        "serves it.",
        ""},
    // ---- the service itself ----
    CatalogueEntry{"svc.privilege",
                   "The service lacks a capability, so that it sees less or cannot act. The "
                   "evidence says which and what for.",
                   "Run it by its own unit: systemctl start nvmaintd.service"},
    CatalogueEntry{"svc.sandbox", "The sandbox of the service's unit hides something it needs.",
                   "systemctl cat nvmaintd.service; remove the drop-in that narrows it"},
    CatalogueEntry{"svc.auth", "No polkit is there to ask, so only root can let the service act.",
                   ""},
    CatalogueEntry{"svc.watchdog", "The watchdog of the service is not armed.", ""},
    CatalogueEntry{"svc.io_uring", "io_uring is switched off here; a fallback is used.", ""},
    CatalogueEntry{"svc.role",
                   "The service runs where the host, and not it, is in charge of drives: in a "
                   "container. It reports what it sees and trims nothing.",
                   "Run it on the host."},
    CatalogueEntry{"svc.kmod",
                   "The kernel module that measures each flush is not in use. Means from the "
                   "kernel's disk statistics serve instead.",
                   ""},
};

} // namespace

const CatalogueEntry* catalogue_entry(std::string_view id) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const CatalogueEntry& entry) { return entry.id == id; });
    return found == entries.end() ? nullptr : &*found;
}

std::vector<std::string_view> catalogue_ids() {
    std::vector<std::string_view> ids;
    ids.reserve(entries.size());
    for (const CatalogueEntry& entry : entries) {
        ids.push_back(entry.id);
    }
    return ids;
}

} // namespace nvmaint::report
