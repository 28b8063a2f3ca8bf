#include "last_words.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string_view>

#include "base/time.hpp"
#include "base/utf8.hpp"
#include "exit_codes.hpp"

namespace ff::daemon {
namespace {

std::atomic<LastForm> form_of_last_words{LastForm::program};

/// One line, of which the end is lost when it is too long. Nothing in it forges another line, or another field.
class LastLine {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }

  void add_foreign(std::string_view text) {
    text = text.substr(0, kMostForeign);
    const bool is_ascii_only = invalid_utf8_at(text).has_value();  // cut in two, perhaps
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      const bool is_unfit = byte < ' ' || byte == 0x7F || (is_ascii_only && byte > 0x7F);
      add(is_unfit ? '?' : c == '"' ? '\'' : c == '\\' ? '/' : c);
    }
  }

  void write() {
    text_[size_] = '\n';
    // A pipe that is full is not waited for: the process is to end.
    static_cast<void>(!::write(STDERR_FILENO, text_.data(), size_ + 1));
  }

 private:
  static constexpr std::size_t kMostForeign = 1000;

  void add(char c) {
    if (size_ + 1 < text_.size()) text_[size_++] = c;
  }

  std::array<char, 1400> text_{};
  std::size_t size_ = 0;
};

void add_head(LastLine& line) {
  const auto now = Clock::system().wall().time_since_epoch().count();
  std::array<char, 64> text{};
  switch (form_of_last_words.load()) {
    case LastForm::program:
      return line.add("ff-reconcilerd: ");
    case LastForm::journal:
      return line.add("<2>");
    case LastForm::text: {
      const std::time_t second = now / 1000;
      std::tm local{};
      ::localtime_r(&second, &local);
      std::array<char, 32> until_second{};
      std::array<char, 8> zone{};
      std::strftime(until_second.data(), until_second.size(), "%Y-%m-%dT%H:%M:%S", &local);
      std::strftime(zone.data(), zone.size(), "%z", &local);
      std::snprintf(text.data(), text.size(), "%s.%03d%.3s:%s critical ", until_second.data(),
                    static_cast<int>(now % 1000), zone.data(), zone.data() + 3);
      return line.add(text.data());
    }
    case LastForm::json:
      std::snprintf(text.data(), text.size(), R"({"time_ms":%lld,"level":"critical","message":")",
                    static_cast<long long>(now));
      return line.add(text.data());
  }
}

}  // namespace

void set_form_of_last_words(LastForm form) noexcept {
  form_of_last_words = form;
}

void end_with_last_words() noexcept {
  static std::atomic<bool> is_ending{false};
  if (is_ending.exchange(true)) std::_Exit(kInternal);
  LastLine line;
  add_head(line);
  line.add("the program ends at once: ");
  if (abi::__cxa_current_exception_type() == nullptr) {
    line.add("nothing was thrown");
  } else {
    try {
      throw;
    } catch (const std::exception& error) {
      line.add_foreign(error.what());
    } catch (...) {
      line.add_foreign(abi::__cxa_current_exception_type()->name());
    }
  }
  if (form_of_last_words == LastForm::json) line.add("\"}");
  line.write();
  std::_Exit(kInternal);
}

}  // namespace ff::daemon
