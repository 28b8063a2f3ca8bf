#include "log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/log_fields.hpp"
#include "base/log_scope.hpp"
#include "base/printable.hpp"
#include "descriptor_sink.hpp"
#include "last_words.hpp"
#include "log_actions.hpp"
#include "report_json.hpp"

namespace ff::daemon {
namespace {

// The scope is that of the thread that logs, which is also the one that formats: the sinks are synchronous.
class ScopeFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    if (const auto id = LogScope::current(); id != 0)
      fmt::format_to(std::back_inserter(out), "[tick {}] ", id);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<ScopeFlag>(); }
};

// One message is one line, whatever it quotes: an id in a row must not forge the next line.
class PrintableFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    out.append(printable(text, text.size()));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableFlag>(); }
};

// sd-daemon(3): a line that starts with <n> has that priority.
class PriorityFlag final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    constexpr std::string_view kPriorities[] = {"<7>", "<7>", "<6>", "<4>", "<3>", "<2>", "<7>"};
    out.append(kPriorities[message.level]);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PriorityFlag>(); }
};

// What is JSON already, an action, stands beside the fields that every line has.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto since_epoch = std::chrono::duration_cast<Milliseconds>(message.time.time_since_epoch());
    nlohmann::ordered_json line;
    line["time_ms"] = since_epoch.count();
    line["level"] = std::string(spdlog::level::to_string_view(message.level).data());
    const std::string_view payload(message.payload.data(), message.payload.size());
    if (message.logger_name == kActionLog) {
      line["message"] = "action";
      const std::string head = dump(line);
      out.append(head.substr(0, head.size() - 1) + ',' + std::string(payload.substr(1)) + '\n');
      return;
    }
    line["message"] = std::string(payload);
    if (const auto id = LogScope::current(); id != 0) line["tick"] = id;
    if (const LogFields* fields = LogFields::current()) {
      line["reconciler"] = std::string(fields->reconciler());
      for (const auto& [what, number] : fields->numbers()) line[what] = number;
      for (const auto& [what, text] : fields->texts()) line[what] = text;
    }
    const std::string text = dump(line) + '\n';
    out.append(text);
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// JOURNAL_STREAM names the device and inode of the stream that the service manager has connected to the journal
// (systemd.exec(5)): another one may have been put in its place since, or have been from the beginning.
bool is_journal(int descriptor) {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat its {};
  return stream != nullptr && ::fstat(descriptor, &its) == 0 &&
         std::to_string(its.st_dev) + ':' + std::to_string(its.st_ino) == stream;
}

std::unique_ptr<spdlog::formatter> text_formatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<ScopeFlag>('*').add_flag<PriorityFlag>('&').add_flag<PrintableFlag>('$');
  formatter->set_pattern(is_journal(STDERR_FILENO) ? "%&%*%$" : "%Y-%m-%dT%H:%M:%S.%e%z %l %*%$");
  return formatter;
}

}  // namespace

void set_up_log(const config::Log& log) {
  set_form_of_last_words(log.format == config::LogFormat::json ? LastForm::json
                         : is_journal(STDERR_FILENO)           ? LastForm::journal
                                                               : LastForm::text);
  auto logger = std::make_shared<spdlog::logger>("", std::make_shared<DescriptorSink>(STDERR_FILENO));
  if (log.format == config::LogFormat::json)
    logger->set_formatter(std::make_unique<JsonFormatter>());
  else
    logger->set_formatter(text_formatter());
  spdlog::set_default_logger(std::move(logger));
  set_log_level(log.level);
}

void set_log_level(config::LogLevel level) {
  switch (level) {
    case config::LogLevel::trace:
      return spdlog::set_level(spdlog::level::trace);
    case config::LogLevel::debug:
      return spdlog::set_level(spdlog::level::debug);
    case config::LogLevel::info:
      return spdlog::set_level(spdlog::level::info);
    case config::LogLevel::warn:
      return spdlog::set_level(spdlog::level::warn);
    case config::LogLevel::error:
      return spdlog::set_level(spdlog::level::err);
  }
}

}  // namespace ff::daemon
