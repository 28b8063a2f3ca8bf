#include "base/duration.hpp"
#include "config/options.hpp"

namespace ff::config {
namespace {

using Type = Option::Type;

std::string choices(const Option& option) {
  std::string words;
  for (const std::string_view choice : option.choices) {
    if (!words.empty()) words += ", ";
    words += choice;
  }
  return words;
}

}  // namespace

std::string section_summary(std::string_view path, const std::vector<ReconcilerDecl>& decls) {
  if (path == "filter") return "for every reconciler; each may have its own";
  if (path == "storm") return "what gives work back when all of it is due at once; `storm: on` for all of it";
  if (path.ends_with(".filter")) return "instead of the common one";
  for (const ReconcilerDecl& decl : decls) {
    if (path == "reconcilers." + std::string(decl.name)) return std::string(decl.summary);
  }
  return {};
}

std::string environment_name(std::string_view path) {
  std::string name = "FF_RECONCILER_";
  for (const char c : path) {
    const bool lower = c >= 'a' && c <= 'z';
    name += c == '.' ? '_' : lower ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

std::string range(const Option& option) {
  if (option.type == Type::flag) return "true or false";
  if (option.type == Type::choice) return choices(option);
  const auto shown = [&](std::int64_t bound) {
    const bool span = option.type == Type::duration || option.type == Type::durations;
    return span                           ? format_duration(Milliseconds{bound})
           : option.type == Type::percent ? std::to_string(bound) + '%'
                                          : std::to_string(bound);
  };
  return std::string(option.type == Type::rate ? "auto, off, or " : "") + shown(option.least) + " to " +
         shown(option.most) + (option.may_be_unlimited ? ", or unlimited" : "") +
         (option.zero_is_off ? ", or off" : "") + (option.type == Type::durations ? ", or keep" : "");
}

std::string allowed(const Option& option) {
  switch (option.type) {
    case Type::text:
      return "a text of " + range(option) + " bytes";
    case Type::count:
      return "a whole number, " + range(option);
    case Type::duration:
      return "a duration with its unit (ms s m h d), " + range(option);
    case Type::percent:
      return "a percentage, " + range(option);
    case Type::rate:
      return "rows a second: " + range(option);
    case Type::durations:
      return "names and durations with their units, such as {tenant-a: 7d, audit: keep}, " + range(option);
    case Type::address:
      return "host:port, such as 127.0.0.1:9464 or \"[::1]:9464\", port 0 to 65535";
    case Type::partitions:
      return "all, keys from 0 to 32767 such as 0-255, a list [0-63, 128], or {shard: 0, of: 4}";
    case Type::choice:
      return "one of " + range(option);
    case Type::flag:
      break;
  }
  return range(option);
}

}  // namespace ff::config
