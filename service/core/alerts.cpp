#include "core/alerts.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace nvmaint::core {
namespace {

bool matches(const Hook& hook, const std::string& id) {
    return hook.match.empty() ||
           std::any_of(hook.match.begin(), hook.match.end(), [&](const std::string& glob) {
               return fnmatch(glob.c_str(), id.c_str(), 0) == 0;
           });
}

std::string name_of(const Hook& hook) {
    std::string name = hook.exec;
    for (const std::string& glob : hook.match) {
        name += '\n' + glob;
    }
    return name;
}

} // namespace

std::vector<AlertEvent> step_alerts(AlertState& state, const std::vector<Hook>& hooks,
                                    const std::vector<Finding>& findings, BootTime now) {
    std::vector<AlertEvent> events;
    std::set<std::pair<std::string, FindingKey>> standing;
    std::map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < hooks.size(); ++i) {
        const std::string name = name_of(hooks[i]);
        index[name] = i;
        for (const Finding& finding : findings) {
            if (!matches(hooks[i], finding.id)) {
                continue;
            }
            const auto key = std::pair(name, key_of(finding));
            standing.insert(key);
            const auto [at, fresh] = state.try_emplace(key, AlertEntry{finding, now, {}, {}});
            AlertEntry& entry = at->second;
            entry.finding = finding;
            entry.gone.reset();
            const bool worse = entry.fired && finding.severity < *entry.fired;
            if ((!entry.fired && now - entry.since >= hooks[i].hold) || worse) {
                entry.fired = finding.severity;
                events.push_back({i, finding, true});
            }
        }
    }
    for (auto at = state.begin(); at != state.end();) {
        AlertEntry& entry = at->second;
        const auto hook = index.find(at->first.first);
        if (standing.contains(at->first)) {
            ++at;
            continue;
        }
        if (!entry.gone) {
            entry.gone = now;
        }
        // A finding that never fired and is gone starts its hold anew when it comes back.
        if (hook == index.end() || !entry.fired) {
            at = state.erase(at);
        } else if (now - *entry.gone >= hooks[hook->second].clear) {
            events.push_back({hook->second, entry.finding, false});
            at = state.erase(at);
        } else {
            ++at;
        }
    }
    return events;
}

} // namespace nvmaint::core
