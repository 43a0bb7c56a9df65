// The service, seen from the command line.
#pragma once

#include "values/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace nvmaint::ctl {

using Value = std::variant<bool, std::uint64_t, std::int64_t, double, std::string>;

struct JobState {
    std::string state; // "running", "done", "failed", "cancelled"
    double progress = 0;
    std::map<std::string, Value> result;
};

struct FlushSeries {
    std::string disk;
    std::vector<std::pair<double, double>>
        points; // seconds before now (negative), mean ms of that second's flushes
};

struct BusEvent {
    bool raised = true;
    std::string id, reason, severity, subject_kind, subject_name, summary;
};

class BusClient {
  public:
    // Errors: System (no bus), Unsupported (a bus, but nobody owns org.nvmaint1).
    [[nodiscard]] static Result<std::unique_ptr<BusClient>> connect();
    BusClient() = default;
    BusClient(const BusClient&) = delete;
    BusClient& operator=(const BusClient&) = delete;
    virtual ~BusClient() = default;

    // The text of a D-Bus error becomes the context; Denied where the service or polkit refused.
    [[nodiscard]] virtual Result<std::string> doctor() = 0;
    [[nodiscard]] virtual Result<std::string> mode() = 0;
    [[nodiscard]] virtual Result<std::string>
    trims() = 0; // JSON array of trim records, newest last
    [[nodiscard]] virtual Result<FlushSeries> flush_series(const std::string& disk) = 0;
    [[nodiscard]] virtual Result<std::string> trim(const std::string& mount,
                                                   const std::map<std::string, Value>& options) = 0;
    [[nodiscard]] virtual Result<JobState> job(const std::string& path) = 0;
    [[nodiscard]] virtual Result<Done> cancel(const std::string& path) = 0;
    [[nodiscard]] virtual Result<Done> reload() = 0;
    // Calls `on_event` for each finding raised or cleared until it returns false or the bus goes
    // away.
    [[nodiscard]] virtual Result<Done>
    monitor(const std::function<bool(const BusEvent&)>& on_event) = 0;
};

} // namespace nvmaint::ctl
