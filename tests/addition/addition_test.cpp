// The daemon's binary with the added reconciler, as an operator has it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "reconcile/family/registry.hpp"
#include "support/database.hpp"
#include "support/process.hpp"
#include "support/stages.hpp"

using namespace ff;
using namespace ff::test;
namespace fs = std::filesystem;

namespace {

const std::string kConfig = FF_SOURCE_DIRECTORY "/config/ff-reconciler.yaml";

Ended run_added(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{FF_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

}  // namespace

TEST_CASE("the sample file with the section of an added reconciler is the default configuration") {
  std::ifstream file(kConfig);
  const bool is_default = run_added({"check-config", "--print-default"}).out ==
                          std::string(std::istreambuf_iterator<char>(file), {});
  CHECK(is_default);
  CHECK(run_added({"check-config", kConfig}).code == 0);
}

TEST_CASE("an added reconciler is ticked, paused and granted like any other") {
  const Database database;
  auto db = database.connect();
  const std::string name = "dispatch_outbox_retention";
  seed(db, *reconcile::find_reconciler(name));
  const Ended ticked = run_added({"tick", name, "--database-url", database.conninfo()});
  CHECK(ticked.code == 0);
  CHECK_THAT(ticked.out, Catch::Contains("forgotten=1"));
  CHECK(run_added({"pause", name, "--reason", "a try", "--database-url", database.conninfo()}).code == 0);
  CHECK_THAT(run_added({"migrate", "grants", name, "--database-url", database.conninfo()}).out,
             Catch::Contains("ff_cancel_dispatch_outbox"));
}

TEST_CASE("a reconciler is added in these files and no others") {
  std::set<std::string> touched;
  for (const auto& entry : fs::recursive_directory_iterator(FF_SOURCE_DIRECTORY))
    if (entry.is_regular_file()) touched.insert(fs::relative(entry.path(), FF_SOURCE_DIRECTORY));
  CHECK(touched ==
        std::set<std::string>{"CHANGELOG.md", "README.md", "config/ff-reconciler.yaml", "docs/actions.md",
                              "docs/configuration.md", "lib/reconcile/family/dispatch_outbox_retention.cpp",
                              "lib/reconcile/family/registry.def",
                              "tests/pg/dispatch_outbox_retention_test.cpp", "tests/support/stages.cpp"});
}
