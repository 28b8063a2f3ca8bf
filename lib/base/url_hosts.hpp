#pragma once

#include <string_view>

namespace ff {

/// Of the hosts of a URL without a user, up to the first "/": each colon has a port behind it, or stands in an IPv6 address.
/// Anything else may be a password.
bool has_only_ports(std::string_view hosts);

}  // namespace ff
