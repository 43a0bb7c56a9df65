// Values into and out of D-Bus messages. Functions return 0 or more, or a negative errno, as sd-bus
// callbacks want it.
#pragma once

#include "bus/objects.hpp"
#include "core/finding.hpp"
#include "values/result.hpp"

#include <systemd/sd-bus.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nvmaint::bus {

struct MessageUnref {
    void operator()(sd_bus_message* message) const { sd_bus_message_unref(message); }
};
using Message = std::unique_ptr<sd_bus_message, MessageUnref>;

// Ends what the slot stands for: an object, a match, a call that waits for its answer.
struct SlotUnref {
    void operator()(sd_bus_slot* slot) const { sd_bus_slot_unref(slot); }
};
using Slot = std::unique_ptr<sd_bus_slot, SlotUnref>;

// Strings must be fit for the bus, see text.hpp.
[[nodiscard]] int append(sd_bus_message* message, const std::string& text);              // s
[[nodiscard]] int append(sd_bus_message* message, const std::vector<std::string>& list); // as
[[nodiscard]] int append(sd_bus_message* message, double value);                         // d
[[nodiscard]] int append(sd_bus_message* message, std::int32_t value);                   // i
[[nodiscard]] int append(sd_bus_message* message, const Dictionary& values);             // a{sv}

// id, reason, severity, subject kind, subject name: sssss. Any bytes.
[[nodiscard]] int append_finding_key(sd_bus_message* message, const core::Finding& finding);
// The same and the details: sssssa{sv}.
[[nodiscard]] int append_finding(sd_bus_message* message, const core::Finding& finding);

// The a{sv} that `message` stands before. Integers of every width become 64 bits wide. Errors:
// Malformed: a key twice, or a type that no option has.
[[nodiscard]] Result<Dictionary> read_options(sd_bus_message* message);

} // namespace nvmaint::bus
