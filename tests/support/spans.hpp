#pragma once

#include <cstdint>

/// Spans of time in ms, as columns and settings have them.
namespace ff::test {

constexpr std::int64_t kMinute = 60'000;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;

}  // namespace ff::test
