// A configuration file. What is accepted is printed, and that has to be read back to the same; what is refused is refused
// in lines that steer no terminal.
#include <utility>

#include "base/utf8.hpp"
#include "config/loader.hpp"
#include "config/print.hpp"
#include "promise.hpp"

namespace {

using namespace ff;
using namespace ff::config;

/// One reconciler for each kind of setting, and those whose settings may contradict each other. All that there are would
/// read the same way, and much longer.
const std::vector<ReconcilerDecl>& decls() {
  using Kind = SettingDecl::Kind;
  static const std::vector<ReconcilerDecl> all{
      {"lease_expiry",
       "",
       true,
       Milliseconds{1500},
       1000,
       true,
       {{"grace", Kind::duration, 0, 0, 3'600'000, false, ""},
        {"max_reclaims", Kind::count, 3, 0, 1'000'000, true, ""},
        {"include_waiting", Kind::flag, 0, 0, 1, false, ""}}},
      {"completion_repair",
       "",
       true,
       Milliseconds{5000},
       1000,
       true,
       {{"max_age", Kind::duration, 86'400'000, 1000, 31'536'000'000, false, ""}}},
      {"outbox_retention",
       "",
       false,
       Milliseconds{60'000},
       1000,
       false,
       {{"retention", Kind::duration, 604'800'000, 1000, 31'536'000'000, false, ""}}},
      {"execution_retention",
       "",
       false,
       Milliseconds{60'000},
       1000,
       true,
       {{"age", Kind::duration, 2'592'000'000, 1000, 315'360'000'000, false, ""},
        {"ages", Kind::durations, 0, 1000, 315'360'000'000, false, ""}}},
  };
  return all;
}

Config loaded(const std::string& text) {
  Loader loader(decls());
  loader.read_document(text, "f.yaml");
  return loader.finish({});
}

bool shows_itself(const Option& option) {
  return option.secret == Option::Secret::none;
}

void reads_back(const Config& config) {
  static const std::vector<Option> all = options(decls());
  const std::string text = print(config, decls());
  try {
    const Config again = loaded(text);
    for (const Option& option : all)
      fuzz::promise(!shows_itself(option) || option.get(config) == option.get(again), option.path, text);
    for (std::size_t i = 0; i < decls().size(); ++i)
      fuzz::promise(config.reconcilers[i].filter == again.reconcilers[i].filter, "a filter is inherited",
                    text);
    // Of a connection string that makes no sense more may be hidden the second time.
    fuzz::promise(!config.database.url.empty() || print(again, decls()) == text,
                  "what is printed is printed again", text);
  } catch (const Invalid& error) {
    fuzz::promise(false, "what is printed can be read", text + error.what());
  }
}

void is_one_line(const Problem& problem) {
  const std::string line = problem.text();
  fuzz::promise(!control_character_at(line, true) && !invalid_utf8_at(line), "a problem is one line", line);
}

// The same bytes as values of flags, where a choice of partitions and durations may be YAML, too.
void read_as_flags(const std::string& text) {
  Loader loader(decls());
  loader.read_overrides({{"--partitions", "partitions", text},
                         {"--ages", "reconcilers.execution_retention.ages", text},
                         {"--listen", "http.listen", text}});
  try {
    reads_back(loader.finish({}));
  } catch (const Invalid& error) {
    for (const Problem& problem : error.problems()) is_one_line(problem);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  // Files that such a document names would be read.
  if (text.find("_file") != std::string::npos) return 0;
  try {
    reads_back(loaded(text));
  } catch (const Invalid& error) {
    for (const Problem& problem : error.problems()) is_one_line(problem);
  }
  read_as_flags(text);
  return 0;
}
