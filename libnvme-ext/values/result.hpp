// Errors as values. Every function that can fail returns Result<T>; each level that knows something
// its callee does not adds a phrase with `in()`.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace nvmaint {

enum class ErrorKind {
    System,      // a system call failed; sys_errno says how
    NvmeStatus,  // the controller completed the command with an error status
    Malformed,   // bytes or text that do not mean what they should
    Unsupported, // the host, kernel or device cannot do this, and that is an ordinary fact
    NotRecorded, // a recording does not carry this; nothing can be concluded from its absence
    Timeout,     // no answer within the deadline; the operation may still complete later
    Denied,      // refused by policy or authorisation, not by the kernel
    Cancelled,
};

struct Error {
    ErrorKind kind = ErrorKind::System;
    int sys_errno = 0;             // 0 where no system call failed
    std::uint16_t nvme_status = 0; // SCT and SC, DNR and More masked off; 0 where none
    std::string context;           // outermost phrase first, parts joined by ": "

    // "reading SMART log of nvme1: Get Log Page 02h: Input/output error"
    [[nodiscard]] std::string text() const;
    // The same error with a phrase in front.
    [[nodiscard]] Error in(const std::string& phrase) const&;

    [[nodiscard]] static Error system(int sys_errno, std::string context);
    [[nodiscard]] static Error make(ErrorKind kind, std::string context);

    bool operator==(const Error&) const = default;
};

// tl::expected under a name of our own, so that dropping one is a warning.
template <class T>
struct [[nodiscard]] Result : tl::expected<T, Error> {
    using tl::expected<T, Error>::expected;
    Result(tl::expected<T, Error> other) : tl::expected<T, Error>(std::move(other)) {}
    Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}

    friend bool operator==(const Result& a, const Result& b) {
        return a.has_value() == b.has_value() &&
               (a.has_value() ? *a == *b : a.error() == b.error());
    }
};

// The value of a Result that carries none: something was done.
struct Done {
    bool operator==(const Done&) const = default;
};

// One reading of the world: a value, or the reason why there is none. Default: not recorded.
// Missing evidence is never zero; whoever wants a number must look at has_value() first.
template <class T>
struct [[nodiscard]] Reading : Result<T> {
    using Result<T>::Result;
    Reading() : Result<T>(Error{ErrorKind::NotRecorded, 0, 0, {}}) {}
    Reading(Result<T> other) : Result<T>(std::move(other)) {}
    Reading(Error error) : Result<T>(std::move(error)) {}

    friend bool operator==(const Reading& a, const Reading& b) {
        return static_cast<const Result<T>&>(a) == static_cast<const Result<T>&>(b);
    }

    [[nodiscard]] bool is_not_recorded() const {
        return !this->has_value() && this->error().kind == ErrorKind::NotRecorded;
    }
    // The file or object is known not to exist (ENOENT), which is a fact and not a gap.
    [[nodiscard]] bool is_known_absent() const {
        return !this->has_value() && this->error().kind == ErrorKind::System &&
               this->error().sys_errno == 2;
    }
};

// Early return of an error: `TRY(name, expression)` binds the value or returns the error.
#define NVMAINT_TRY_CAT2(a, b) a##b
#define NVMAINT_TRY_CAT(a, b) NVMAINT_TRY_CAT2(a, b)
#define TRY(name, expression)                                                                      \
    auto NVMAINT_TRY_CAT(try_, __LINE__) = (expression);                                           \
    if (!NVMAINT_TRY_CAT(try_, __LINE__)) {                                                        \
        return ::nvmaint::Error(NVMAINT_TRY_CAT(try_, __LINE__).error());                          \
    }                                                                                              \
    auto name = std::move(*NVMAINT_TRY_CAT(try_, __LINE__))

} // namespace nvmaint
