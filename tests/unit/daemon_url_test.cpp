#include "daemon_url.hpp"

#include <catch2/catch.hpp>

#include "arguments.hpp"

using namespace ff::daemon;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_daemon_url("url", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST_CASE("a daemon's URL has a name or an address, and may leave out scheme, port and path") {
  for (const auto& [text, url] : std::vector<std::pair<std::string, DaemonUrl>>{
           {"http://db1:9465", {"db1", 9465}},
           {"HTTP://db1", {"db1", 9464}},
           {"http://db1/", {"db1", 9464}},
           {"http://db-1.example.com:80/status", {"db-1.example.com", 80}},
           {"http://127.0.0.1:1/status/", {"127.0.0.1", 1}},
           {"http://[::1]:9465", {"::1", 9465}},
           {"[2001:db8::1]", {"2001:db8::1", 9464}},
           {"localhost:65535", {"localhost", 65'535}}}) {
    CAPTURE(text);
    CHECK(parse_daemon_url("url", text) == url);
  }
}

TEST_CASE("what is no URL of a daemon is refused with what is wrong, and repeats no password") {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"https://db1:9464", "a daemon has no TLS: write http, not https"},
           {"HTTPS://db1", "a daemon has no TLS"},
           {"postgresql://u:s3cret@h/d", "the scheme is not http"},
           {"http://u:s3cret@db1", "a daemon asks for no user"},
           {"http://db1:9464/s3cret", "a daemon has no such path"},
           {"http://db1?s3cret", "a daemon has no such path"},
           {"http://", "the host is missing"},
           {"", "the host is missing"},
           {":9464", "the host is missing"},
           {"[]:80", "the host is missing"},
           {"::1", "an IPv6 address needs brackets"},
           {"[db1]:80", "no host name or address"},
           {"[::1]80", "no host name or address"},
           {"[::1", "an IPv6 address needs brackets"},
           {"two words:80", "no host name or address"},
           {"db1:", "the port is no number from 1 to 65535"},
           {"db1:0", "the port is no number"},
           {"db1:65536", "the port is no number"},
           {"db1:s3cret", "the port is no number"}}) {
    CAPTURE(text);
    CHECK_THAT(refusal(text), Catch::StartsWith("--url: " + why) && Catch::Contains("(allowed: http://") &&
                                  !Catch::Contains("s3cret"));
  }
}
