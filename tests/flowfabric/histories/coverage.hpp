#pragma once

#include <map>
#include <string>
#include <string_view>

#include "histories/step.hpp"

namespace ff::test {

/// What histories did, and how often: by operation ("suspend"), by its kinds ("suspend timeout_behavior=fail"), by
/// what FlowFabric or a reconciler answered ("reclaim_execution: claimed", "lease_expiry: released"), and by what was
/// forgiven.
class Coverage {
 public:
  /// A step that changed something.
  void note(const Step& step, const Json& told = {});
  void note(const std::string& word, std::int64_t times = 1) { counts_[word] += times; }
  void add(const Coverage& other);

  std::int64_t of(const std::string& word) const;
  /// One word a line, for people.
  std::string to_text() const;

 private:
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace ff::test
