// A command line, an argument a line: what it means, and the values that commands read out of it. No command runs.
#include "arguments.hpp"

#include <sstream>

#include "base/duration.hpp"
#include "base/moment.hpp"
#include "base/partitions.hpp"
#include "commands.hpp"
#include "config/secrets.hpp"
#include "lease/cursor.hpp"
#include "promise.hpp"

// The table of commands names them, and here they are: nothing of what they use has to be built.
namespace ff::daemon {
namespace {

int nothing() {
  std::abort();
}

}  // namespace

int run(const Arguments&) {
  return nothing();
}
int tick(const Arguments&) {
  return nothing();
}
int lease_events(const Arguments&) {
  return nothing();
}
int status(const Arguments&) {
  return nothing();
}
int explain_execution(const Arguments&) {
  return nothing();
}
int audit_database(const Arguments&) {
  return nothing();
}
int migrate(const Arguments&) {
  return nothing();
}
int check_config(const Arguments&) {
  return nothing();
}
int check_db(const Arguments&) {
  return nothing();
}
int demo(const Arguments&) {
  return nothing();
}
int quarantine(const Arguments&) {
  return nothing();
}
int pause_reconcilers(const Arguments&) {
  return nothing();
}
int resume_reconcilers(const Arguments&) {
  return nothing();
}
int healthcheck(const Arguments&) {
  return nothing();
}
int manual(const Arguments&, const std::vector<Command>&) {
  return nothing();
}
int version(const Arguments&) {
  return nothing();
}

}  // namespace ff::daemon

namespace {

using namespace ff;

constexpr std::string_view kSecret = "hunter2";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void read_partitions(const std::string& text) {
  try {
    const Partitions keys = parse_partitions(text);
    fuzz::promise(parse_partitions(format_partitions(keys)) == keys,
                  "partitions are read as they were written", text);
  } catch (const std::invalid_argument&) {
  }
}

void read_cursor(const std::string& text) {
  try {
    lease::parse_hex_cursor(text);
  } catch (const lease::InvalidCursor&) {
  }
}

void read_value(const std::string& text) {
  read_partitions(text);
  read_cursor(text);
  if (const auto id = parse_execution_id(text))
    fuzz::promise(parse_execution_id(to_string(*id)) == id, "an execution is read as it was written", text);
  if (const auto duration = parse_duration(text))
    fuzz::promise(parse_duration(format_duration(*duration)) == duration,
                  "a duration is read as it was written", text);
  if (const auto moment = parse_moment(text))
    fuzz::promise(parse_moment(format_moment(*moment)) == moment, "a moment is read as it was written", text);
}

bool hides_secret(const std::string& text) {
  return config::hide_secrets(text).find(kSecret) == std::string::npos;
}

/// Whether the whole, the option's name and its value, each of which may be repeated, are such that a password is seen in them.
bool each_part_hides_secret(const std::string& argument) {
  const std::size_t equals = std::min(argument.find('='), argument.size());
  return hides_secret(argument) && hides_secret(argument.substr(0, equals)) &&
         hides_secret(argument.substr(std::min(equals + 1, argument.size())));
}

template <typename Read>
void is_discreet(const std::vector<std::string>& line, Read read) {
  std::string shown;
  try {
    read();
  } catch (const daemon::UsageError& error) {
    shown = error.what();
  }
  fuzz::promise(
      !std::ranges::all_of(line, each_part_hides_secret) || shown.find(kSecret) == std::string::npos,
      "a refusal repeats no password", shown);
}

void read_values(const daemon::Arguments& arguments, const daemon::Command& command,
                 const std::vector<std::string>& line) {
  for (const std::string_view name : command.options) {
    if (!arguments.has(std::string(name)) || daemon::option(name).value.empty()) continue;
    const auto text = arguments.text(std::string(name));
    fuzz::promise(text.has_value(), "an option has its value", std::string(name));
    read_value(*text);
    is_discreet(line, [&] { arguments.number(std::string(name), 1, 100'000); });
  }
  is_discreet(line, [&] { arguments.partitions(); });
  is_discreet(line, [&] { arguments.instance_tag(); });
  for (const std::string& word : arguments.words()) read_value(word);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  if (text.find('\0') != std::string::npos) return 0;  // no argument has one
  const std::vector<std::string> line = lines_of(text);
  is_discreet(line, [&] {
    const daemon::Invocation invocation = daemon::understand(line, daemon::commands());
    if (invocation.help) daemon::help(daemon::commands(), invocation.command);
    if (invocation.command != nullptr && !invocation.help)
      read_values(invocation.arguments, *invocation.command, line);
  });
  return 0;
}
