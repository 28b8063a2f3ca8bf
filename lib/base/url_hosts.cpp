#include "base/url_hosts.hpp"

#include <algorithm>

namespace ff {

bool has_only_ports(std::string_view hosts) {
  bool in_brackets = false;
  for (std::size_t i = 0; i < hosts.size() && hosts[i] != '/'; ++i) {
    if (hosts[i] == '[' || hosts[i] == ']') in_brackets = hosts[i] == '[';
    if (hosts[i] != ':' || in_brackets) continue;
    const std::size_t end = std::min(hosts.find_first_not_of("0123456789", i + 1), hosts.size());
    if (end < hosts.size() && hosts[end] != ',' && hosts[end] != '/') return false;
  }
  return true;
}

}  // namespace ff
