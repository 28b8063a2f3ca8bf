#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ff {

/// What all that this thread logs while it lives is of: in a log of JSON, fields beside the message. One within another
/// holds while it lives. The log's formatter asks for it.
class LogFields {
 public:
  using Numbers = std::vector<std::pair<std::string, std::int64_t>>;
  using Texts = std::vector<std::pair<std::string, std::string>>;

  /// The name must outlive it.
  explicit LogFields(std::string_view reconciler, Numbers numbers = {}, Texts texts = {});
  ~LogFields();
  LogFields(const LogFields&) = delete;
  LogFields& operator=(const LogFields&) = delete;

  std::string_view reconciler() const { return reconciler_; }
  const Numbers& numbers() const { return numbers_; }
  const Texts& texts() const { return texts_; }

  /// Of this thread, or null.
  static const LogFields* current();

 private:
  const std::string_view reconciler_;
  const Numbers numbers_;
  const Texts texts_;
  const LogFields* const outer_;
};

}  // namespace ff
