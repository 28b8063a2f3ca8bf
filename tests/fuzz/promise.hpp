#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace ff::fuzz {

/// Where what is promised is not kept: says so, and ends in a way that makes libFuzzer keep the input.
inline void promise(bool kept, std::string_view what, const std::string& seen) {
  if (kept) return;
  std::fprintf(stderr, "not kept: %s\n%s\n", std::string(what).c_str(), seen.c_str());
  std::abort();
}

inline std::string text_of(const unsigned char* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace ff::fuzz
