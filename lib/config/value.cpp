#include "config/value.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"

namespace ff::config {
namespace {

using Type = Option::Type;
using Kind = Node::Kind;

// As many as there can be partitions: their keys are smallint.
constexpr std::int64_t kMostShards = 32'768;

constexpr std::int64_t kLongestName = 4096;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(why);
}

/// YAML 1.1 would read 010 as eight, people as ten: neither, then.
bool has_leading_zero(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const bool starts = i == 0 || !is_digit(text[i - 1]);
    if (starts && text[i] == '0' && is_digit(text[i + 1])) return true;
  }
  return false;
}

void check_range(const Option& option, std::int64_t number) {
  if (number < option.least) refuse("too small");
  if (number > option.most) refuse("too large");
}

std::int64_t parse_count(const Node& node) {
  if (node.kind != Kind::scalar) refuse("no number");
  if (node.quoted) refuse("a text in quotes, not a number");
  const std::string& text = node.text;
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) refuse("no decimal whole number");
  if (has_leading_zero(text)) refuse("a leading zero (would it be octal?)");
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::numeric_limits<std::int64_t>::max();  // the range check says the rest
  return number;
}

std::int64_t parse_percent(const Node& node) {
  Node number = node;
  if (!number.text.ends_with('%')) refuse("the % is missing");
  number.text.pop_back();
  return parse_count(number);
}

std::int64_t parse_rate(const Option& option, const Node& node) {
  if (node.text == "auto") return Storm::kAuto;
  if (node.text == "off") return Storm::kNoLimit;
  const std::int64_t rate = parse_count(node);
  check_range(option, rate);
  return rate;
}

std::int64_t parse_span(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_digit)) refuse("the unit is missing");
  if (has_leading_zero(text)) refuse("a leading zero (would it be octal?)");
  const auto duration = parse_duration(text);
  if (!duration) refuse("no duration");
  return duration->count();
}

std::string parse_text(const Option& option, const std::string& text) {
  if (invalid_utf8_at(text)) refuse("not UTF-8");
  if (control_character_at(text, true)) refuse("has a control character or a line break in it");
  if (static_cast<std::int64_t>(text.size()) < option.least) refuse("empty");
  if (static_cast<std::int64_t>(text.size()) > option.most) refuse("too long");
  return text;
}

std::int64_t parse_choice(const Option& option, const std::string& text) {
  const auto found = std::find(option.choices.begin(), option.choices.end(), text);
  if (found == option.choices.end()) refuse("unknown word");
  return found - option.choices.begin();
}

bool is_address(const std::string& host, bool ipv6) {
  in6_addr address{};
  return ::inet_pton(ipv6 ? AF_INET6 : AF_INET, host.c_str(), &address) == 1;
}

/// Where to listen: a name would have to be looked up, and could be somebody else's.
std::string parse_address(const std::string& text) {
  if (text.find("://") != std::string::npos) refuse("an address to listen on has no scheme");
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse("the port is missing");
  const std::string port = text.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit);
  if (!digits || has_leading_zero(port) || std::stoi(port) > 65'535)
    refuse("the port is out of range or no number");
  std::string host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  constexpr std::string_view kIpv6 = "abcdefABCDEF0123456789:.";
  if (host.empty()) refuse("the host is missing");
  if (!brackets && host.find(':') != std::string::npos) refuse("an IPv6 address needs brackets");
  if (host.find_first_not_of(brackets ? kIpv6 : kName) != std::string::npos)
    refuse("no host name or address");
  if (brackets && host.find(':') == std::string::npos) refuse("only an IPv6 address has brackets");
  if (!is_address(host, brackets) && (brackets || host != "localhost"))
    refuse(brackets ? "no IPv6 address"
                    : "no address of this machine (write one, such as 127.0.0.1, or 0.0.0.0 for all, or "
                      "localhost)");
  return text;
}

/// Collects keys part by part; each part that is wrong gets its own reason.
class PartitionCollector {
 public:
  void add(std::string_view text) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      add_part(text.substr(at, comma - at));
      at = comma + 1;
    }
  }
  void blame(const std::string& why) { reasons_ += (reasons_.empty() ? "" : "; ") + why; }
  Partitions take() {
    if (!reasons_.empty()) refuse(reasons_);
    if (keys_.empty()) refuse("no partition at all");
    return {keys_.begin(), keys_.end()};
  }

 private:
  void add_part(std::string_view part) {
    if (reasons_.size() >= kEnough) return;
    try {
      if (has_leading_zero(part))
        refuse('"' + printable(part, kLongestQuoted) + "\" has a leading zero (would it be octal?)");
      for (const PartitionKey key : parse_partitions(part)) {
        if (!keys_.insert(key).second) refuse("partition " + std::to_string(key.value) + " is named twice");
      }
    } catch (const std::invalid_argument& error) {
      blame(printable(error.what(), kLongestQuoted));
    }
  }

  static constexpr std::size_t kEnough = 1000;  // bytes of complaint about one value

  std::set<PartitionKey> keys_;
  std::string reasons_;
};

/// {shard: 0, of: 4}
PartitionShard parse_shard(const Node& node) {
  std::int64_t shard = -1;
  std::int64_t of = -1;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& key = node.keys[i].text;
    std::int64_t* const number = key == "shard" ? &shard : key == "of" ? &of : nullptr;
    if (!number) refuse("unknown key \"" + printable(key, kLongestQuoted) + "\" beside shard and of");
    if (*number != -1) refuse("duplicate key \"" + key + '"');
    try {
      *number = parse_count(node.items[i]);
    } catch (const std::invalid_argument& error) {
      refuse(key + ": " + error.what());
    }
  }
  if (shard == -1 || of == -1) refuse("shard and of are both needed");
  if (of < 1 || of > kMostShards) refuse("of is out of range (1 to 32768)");
  if (shard >= of) refuse("shard has to be less than of");
  return {static_cast<int>(shard), static_cast<int>(of)};
}

PartitionChoice parse_partition_choice(const Node& node) {
  if (node.kind == Kind::mapping) return parse_shard(node);
  if (node.kind == Kind::scalar && node.text == "all") return AllPartitions{};
  PartitionCollector keys;
  if (node.kind == Kind::scalar) keys.add(node.text);
  for (const Node& item : node.items) {
    if (item.kind == Kind::scalar)
      keys.add(item.text);
    else
      keys.blame("an element of the list is no partition or range of partitions");
  }
  return keys.take();
}

/// One that names an entry of a mapping, which itself cannot be named by it as long as it is wrong.
std::string parse_name(const Node& key, std::size_t number) {
  Option option;
  option.least = 1;
  option.most = kLongestName;
  const std::string entry = "entry " + std::to_string(number) + ": ";
  if (key.kind != Kind::scalar) refuse(entry + "a key that is no name");
  try {
    return parse_text(option, key.text);
  } catch (const std::invalid_argument& error) {
    refuse(entry + "its name: " + error.what());
  }
}

/// {tenant-a: 7d, audit: keep}
Durations parse_durations(const Option& option, const Node& node) {
  if (node.kind != Kind::mapping) refuse("no names with durations");
  Durations all;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Node& item = node.items[i];
    const std::string name = parse_name(node.keys[i], i + 1);
    const std::string shown = printable(name, kLongestQuoted) + ": ";
    if (item.kind != Kind::scalar) refuse(shown + "no duration");
    std::optional<std::int64_t> age;
    if (item.text != "keep") {
      try {
        age = parse_span(item.text);
        check_range(option, *age);
      } catch (const std::invalid_argument& error) {
        refuse(shown + error.what());
      }
    }
    if (!all.emplace(name, age).second) refuse("duplicate name \"" + printable(name, kLongestQuoted) + '"');
  }
  return all;
}

/// Whether a text can stand in YAML without quotes and still be read back as it is.
bool is_plain(const std::string& text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.-:@%?=&,+*";
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c); };
  if (text.empty() || (!letter(text.front()) && text.front() != '/') || text.back() == ':') return false;
  if (text == "null" || text == "Null" || text == "NULL") return false;
  return text.find_first_not_of(kSafe) == std::string::npos;
}

// In a mapping on one line a comma or a colon would end it.
bool is_plain_key(const std::string& text) {
  return is_plain(text) && text.find_first_of(",:") == std::string::npos;
}

std::string quoted(const std::string& text) {
  std::string shown = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') shown += '\\';
    shown += c;
  }
  return shown + '"';
}

std::string format_durations(const Durations& all) {
  std::string shown;
  for (const auto& [name, age] : all)
    shown += (shown.empty() ? "" : ", ") + (is_plain_key(name) ? name : quoted(name)) + ": " +
             (age ? format_duration(Milliseconds{*age}) : "keep");
  return '{' + shown + '}';
}

}  // namespace

Value parse_value(const Option& option, const Node& node) {
  if (node.kind == Kind::null) refuse("no value");
  if (option.type == Type::partitions) return parse_partition_choice(node);
  if (option.type == Type::durations) return parse_durations(option, node);
  if (node.kind != Kind::scalar)
    refuse(node.kind == Kind::mapping ? "a section, not a value" : "a list, not a value");
  if (option.may_be_unlimited && node.text == "unlimited") return {};
  if (option.zero_is_off && node.text == "off") return std::int64_t{0};
  switch (option.type) {
    case Type::count: {
      const std::int64_t number = parse_count(node);
      check_range(option, number);
      return number;
    }
    case Type::percent: {
      const std::int64_t percent = parse_percent(node);
      check_range(option, percent);
      return percent;
    }
    case Type::rate:
      return parse_rate(option, node);
    case Type::duration: {
      const std::int64_t duration = parse_span(node.text);
      check_range(option, duration);
      return duration;
    }
    case Type::flag:
      if (node.quoted || (node.text != "true" && node.text != "false")) refuse("neither true nor false");
      return node.text == "true";
    case Type::choice:
      return parse_choice(option, node.text);
    case Type::address:
      return parse_address(node.text);
    case Type::text:
    case Type::durations:
    case Type::partitions:
      break;
  }
  return parse_text(option, node.text);
}

std::string format_value(const Option& option, const Value& value) {
  if (std::holds_alternative<std::monostate>(value)) return option.may_be_unlimited ? "unlimited" : "";
  if (const bool* on = std::get_if<bool>(&value)) return *on ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return is_plain(*text) ? *text : quoted(*text);
  if (const auto* choice = std::get_if<PartitionChoice>(&value)) return format_choice(*choice);
  if (const auto* durations = std::get_if<Durations>(&value)) return format_durations(*durations);
  const std::int64_t number = std::get<std::int64_t>(value);
  if (option.zero_is_off && number == 0) return "off";
  if (option.type == Type::duration) return format_duration(Milliseconds{number});
  if (option.type == Type::percent) return std::to_string(number) + '%';
  if (option.type == Type::rate && number == Storm::kAuto) return "auto";
  if (option.type == Type::rate && number == Storm::kNoLimit) return "off";
  if (option.type == Type::choice) return std::string(option.choices.at(static_cast<std::size_t>(number)));
  return std::to_string(number);
}

}  // namespace ff::config
