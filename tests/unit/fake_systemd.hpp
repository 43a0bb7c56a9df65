// A peer on a UNIX socket that answers as a system bus with systemd on it would: enough of it to
// read units from. It runs in a thread of its own until it is destroyed.
#pragma once

#include "folder.hpp"

#include <gtest/gtest.h>
#include <systemd/sd-bus.h>

#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace nvmaint::test {

class FakeSystemd {
  public:
    // Appends the a{sv} of a unit's properties.
    using Properties = std::function<void(sd_bus_message* reply)>;

    // By unit; a unit that is not in there is not known.
    explicit FakeSystemd(std::map<std::string, Properties> units) : units_(std::move(units)) {
        const std::string path = folder_.path() + "/bus";
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
        listening_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listening_, 1), 0);
        setenv("DBUS_SYSTEM_BUS_ADDRESS", ("unix:path=" + path).c_str(), 1);
        thread_ = std::thread([this] { serve(); });
    }
    FakeSystemd(const FakeSystemd&) = delete;
    FakeSystemd& operator=(const FakeSystemd&) = delete;
    ~FakeSystemd() {
        stop_ = true;
        thread_.join();
        close(listening_);
        unsetenv("DBUS_SYSTEM_BUS_ADDRESS");
    }

    // Answer this member with an error instead.
    void fail(const std::string& member) { failing_ = member; }

    static void property(sd_bus_message* reply, const char* name, const char* type,
                         const std::function<void()>& append) {
        sd_bus_message_open_container(reply, 'e', "sv");
        sd_bus_message_append(reply, "s", name);
        sd_bus_message_open_container(reply, 'v', type);
        append();
        sd_bus_message_close_container(reply);
        sd_bus_message_close_container(reply);
    }

  private:
    void serve() {
        pollfd waiting{listening_, POLLIN, 0};
        while (!stop_ && poll(&waiting, 1, 20) == 0) {
        }
        if (stop_) {
            return;
        }
        const int fd = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
        sd_bus* bus = nullptr;
        sd_id128_t id{};
        sd_id128_randomize(&id);
        sd_bus_new(&bus);
        sd_bus_set_fd(bus, fd, fd);
        sd_bus_set_server(bus, 1, id);
        sd_bus_set_anonymous(bus, 1);
        sd_bus_set_trusted(bus, 1);
        sd_bus_add_filter(bus, nullptr, answer, this);
        sd_bus_start(bus);
        while (!stop_) {
            const int processed = sd_bus_process(bus, nullptr);
            if (processed < 0) {
                break;
            }
            if (processed == 0) {
                sd_bus_wait(bus, 20000);
            }
        }
        sd_bus_close_unref(bus);
    }

    static int answer(sd_bus_message* call, void* self, sd_bus_error*) {
        return static_cast<FakeSystemd*>(self)->reply_to(call);
    }

    int reply_to(sd_bus_message* call) {
        const char* member = sd_bus_message_get_member(call);
        if (member == nullptr) {
            return 0;
        }
        if (failing_ == member) {
            sd_bus_reply_method_errorf(call, SD_BUS_ERROR_ACCESS_DENIED, "not for you");
            return 1;
        }
        sd_bus_message* reply = nullptr;
        sd_bus_message_new_method_return(call, &reply);
        const std::string what = member;
        if (what == "Hello") {
            sd_bus_message_append(reply, "s", ":1.1");
        } else if (what == "ListUnitsByPatterns") {
            sd_bus_message_open_container(reply, 'a', "(ssssssouso)");
            for (const auto& [name, properties] : units_) {
                if (name.ends_with(".timer") && name.find("trim") != std::string::npos) {
                    sd_bus_message_append(reply, "(ssssssouso)", name.c_str(), "", "loaded",
                                          "active", "waiting", "", "/x", 0U, "", "/");
                }
            }
            sd_bus_message_close_container(reply);
        } else if (what == "ListUnitFilesByPatterns") {
            sd_bus_message_append(reply, "a(ss)", 2, "/lib/systemd/system/fstrim.timer", "enabled",
                                  "/lib/systemd/system/trim@.timer", "static");
        } else if (what == "LoadUnit") {
            const char* name = "";
            sd_bus_message_read(call, "s", &name);
            char* path = nullptr;
            sd_bus_path_encode("/org/freedesktop/systemd1/unit", name, &path);
            sd_bus_message_append(reply, "o", path);
            free(path);
        } else if (what == "GetAll") {
            char* name = nullptr;
            sd_bus_path_decode(sd_bus_message_get_path(call), "/org/freedesktop/systemd1/unit",
                               &name);
            sd_bus_message_open_container(reply, 'a', "{sv}");
            const auto unit = units_.find(name);
            if (unit != units_.end()) {
                unit->second(reply);
            } else {
                property(reply, "LoadState", "s",
                         [&] { sd_bus_message_append(reply, "s", "not-found"); });
            }
            sd_bus_message_close_container(reply);
            free(name);
        }
        sd_bus_send(sd_bus_message_get_bus(call), reply, nullptr);
        sd_bus_message_unref(reply);
        return 1;
    }

    Folder folder_;
    std::map<std::string, Properties> units_;
    std::string failing_;
    int listening_ = -1;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

} // namespace nvmaint::test
