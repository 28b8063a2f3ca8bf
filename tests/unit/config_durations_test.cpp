// Durations by name, such as `ages: {tenant-a: 7d, audit: keep}`.
#include <catch2/catch.hpp>

#include "config/print.hpp"
#include "config_samples.hpp"

using namespace ff;
using namespace ff::config;
using namespace ff::config::samples;

namespace {

constexpr std::int64_t kDay = 86'400'000;

const std::vector<ReconcilerDecl>& with_ages() {
  static const std::vector<ReconcilerDecl> all{
      {"retention",
       "deletes",
       false,
       Milliseconds{60'000},
       1000,
       true,
       {{"age", SettingDecl::Kind::duration, 30 * kDay, 3'600'000, 3650 * kDay, false, "how old"},
        {"ages", SettingDecl::Kind::durations, 30 * kDay, 3'600'000, 3650 * kDay, false, "by namespace"}}}};
  return all;
}

Config load_ages(const std::string& ages, const Environment& environment = {}) {
  const TemporaryFile file("reconcilers:\n  retention:\n    age: 2d\n    ages: " + ages + "\n");
  return load({file.path(), environment, {}}, with_ages());
}

std::string refusal_of(const std::string& ages) {
  try {
    load_ages(ages);
  } catch (const Invalid& invalid) {
    return invalid.problems().at(0).text();
  }
  return {};
}

}  // namespace

TEST_CASE("durations by name are settings of their own, and keep is one without a value") {
  CHECK(load_ages("{}").reconcilers[0].settings == Settings{{"age", 2 * kDay}});
  CHECK(load_ages(R"({tenant-a: 7d, audit: keep, "a.b: c": 1h})").reconcilers[0].settings ==
        Settings{
            {"age", 2 * kDay}, {"ages.tenant-a", 7 * kDay}, {"ages.audit", {}}, {"ages.a.b: c", 3'600'000}});
}

TEST_CASE("durations by name are printed so that they are read again") {
  for (const char* ages :
       {"{}", "{audit: keep, tenant-a: 7d}", R"({"a, b": 1d, "c: d": keep, "true": 2h})"}) {
    CAPTURE(ages);
    const Config config = load_ages(ages);
    const std::string printed = print(config, with_ages());
    CAPTURE(printed);
    const TemporaryFile again(printed);
    CHECK(load({again.path(), {}, {}}, with_ages()).reconcilers[0].settings ==
          config.reconcilers[0].settings);
  }
  CHECK(print_default(with_ages()).find("ages: {}  # by namespace (1h to 3650d, or keep)") !=
        std::string::npos);
}

TEST_CASE("the environment's durations take the place of the file's") {
  const Config config =
      load_ages("{tenant-a: 7d}", {{"FF_RECONCILER_RECONCILERS_RETENTION_AGES", "{audit: keep}"}});
  CHECK(config.reconcilers[0].settings == Settings{{"age", 2 * kDay}, {"ages.audit", {}}});
}

TEST_CASE("durations by name that are none are refused, and which") {
  CHECK(refusal_of("7d").find("no names with durations") != std::string::npos);
  CHECK(refusal_of("{tenant-a: 7}").find("tenant-a: the unit is missing") != std::string::npos);
  CHECK(refusal_of("{tenant-a: 1s}").find("tenant-a: too small") != std::string::npos);
  CHECK(refusal_of("{tenant-a: [1d]}").find("tenant-a: no duration") != std::string::npos);
  CHECK(refusal_of("{a: 1d, a: 2d}").find("a") != std::string::npos);
}

TEST_CASE("of durations by name the entry at fault is named, by its place where it has no name") {
  CHECK_THAT(refusal_of(R"({audit: keep, "": 7d})"), Catch::Contains("entry 2: its name: empty"));
  CHECK_THAT(refusal_of(R"({"a\nb": 7d})"), Catch::Contains("entry 1: its name: has a control character"));
  CHECK_THAT(refusal_of("{audit: 7}"), Catch::Contains("audit: the unit is missing"));
}
