#include <catch2/catch.hpp>
#include <limits>
#include <thread>

#include "base/duration.hpp"
#include "base/ids.hpp"
#include "base/log_scope.hpp"
#include "base/partition_choice.hpp"
#include "base/time.hpp"

using namespace ff;
using namespace std::chrono_literals;

namespace {

Partitions keys(std::initializer_list<int> values) {
  Partitions all;
  for (const int value : values) all.push_back({static_cast<std::int16_t>(value)});
  return all;
}

constexpr const char* kUuid = "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d";

}  // namespace

TEST_CASE("a duration is a whole number with a unit") {
  CHECK(parse_duration("0s") == 0ms);
  CHECK(parse_duration("1500ms") == 1500ms);
  CHECK(parse_duration("2s") == 2000ms);
  CHECK(parse_duration("3m") == 180'000ms);
  CHECK(parse_duration("4h") == 14'400'000ms);
  CHECK(parse_duration("7d") == 604'800'000ms);
}

TEST_CASE("a duration is spoken with two units at most") {
  CHECK(spoken_duration(0ms) == "0 ms");
  CHECK(spoken_duration(999ms) == "999 ms");
  CHECK(spoken_duration(3'290ms) == "3.2 s");
  CHECK(spoken_duration(60s) == "1 m");
  CHECK(spoken_duration(123s) == "2 m 3 s");
  CHECK(spoken_duration(1h + 59s) == "1 h");
  CHECK(spoken_duration(26h + 10min) == "1 d 2 h");
  CHECK(spoken_duration(-1500ms) == "1.5 s");
}

TEST_CASE("a duration that is malformed or does not fit is nothing") {
  const auto* text =
      GENERATE("", "5", "s", "-1s", "+1s", "1.5s", " 1s", "1s ", "1 s", "1S", "1sec", "1ms2", "1us", "1w",
               "0x1s", "1e3s", "99999999999999999999ms", "106751991168d", "18446744073709551615s");
  CAPTURE(text);
  CHECK(!parse_duration(text));
}

TEST_CASE("the longest durations that fit are read exactly") {
  CHECK(parse_duration("9223372036854775807ms")->count() == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_duration("106751991167d")->count() == 106'751'991'167 * 86'400'000);
  CHECK(!parse_duration("9223372036854775808ms"));
}

TEST_CASE("a duration is written in its largest exact unit and read back as the same") {
  CHECK(format_duration(0ms) == "0s");
  CHECK(format_duration(90'000ms) == "90s");
  CHECK(format_duration(120'000ms) == "2m");
  CHECK(format_duration(3'600'000ms) == "1h");
  CHECK(format_duration(172'800'000ms) == "2d");
  CHECK(format_duration(1'001ms) == "1001ms");
  const Milliseconds any{GENERATE(0, 1, 999, 1000, 59'999, 60'000, 3'599'000, 86'400'000, 86'400'001)};
  CHECK(parse_duration(format_duration(any)) == any);
}

TEST_CASE("partitions are read as keys and ranges in any order") {
  CHECK(parse_partitions("7") == keys({7}));
  CHECK(parse_partitions("0-3") == keys({0, 1, 2, 3}));
  CHECK(parse_partitions("128, 0-1 ,\t64") == keys({0, 1, 64, 128}));
  CHECK(parse_partitions("32767") == keys({32767}));
  CHECK(parse_partitions("5-5") == keys({5}));
}

TEST_CASE("malformed partitions are refused with the part at fault") {
  const auto* text = GENERATE("", ",", "1,", ",1", "a", "1-", "-1", "1--2", "1-2-3", "32768", "0-32768",
                              "0x1", "1.0", "+1", "1;2", "1 2", "1 - 2");
  CAPTURE(text);
  CHECK_THROWS_AS(parse_partitions(text), std::invalid_argument);
}

TEST_CASE("the refusal of partitions says what is wrong") {
  using Catch::Matchers::Message;
  CHECK_THROWS_WITH(parse_partitions("0-3,x"), Catch::StartsWith("\"x\" is no partition"));
  CHECK_THROWS_WITH(parse_partitions("9-3"), "the range \"9-3\" runs backwards");
  CHECK_THROWS_WITH(parse_partitions("0-9,5"), "partition 5 is named twice");
  CHECK_THROWS_WITH(parse_partitions("4,4"), "partition 4 is named twice");
}

TEST_CASE("partitions are written with their runs joined") {
  CHECK(format_partitions({}).empty());
  CHECK(format_partitions(keys({3})) == "3");
  CHECK(format_partitions(keys({0, 1, 2, 128})) == "0-2,128");
  CHECK(format_partitions(keys({0, 2, 3, 5})) == "0,2-3,5");
  CHECK(format_partitions(partition_range({0}, {32767})) == "0-32767");
  const auto some = keys({0, 4, 5, 6, 9, 255});
  CHECK(parse_partitions(format_partitions(some)) == some);
}

TEST_CASE("what a choice of partitions comes to depends on how many there are") {
  CHECK(cover(AllPartitions{}, 4) == Coverage{4, keys({0, 1, 2, 3}), {}, {}});
  CHECK(cover(AllPartitions{}, 1024).covered == partition_range({0}, {1023}));
  CHECK(cover(AllPartitions{}, 32768).covered.back().value == 32767);
  CHECK(cover(PartitionShard{1, 3}, 8) == Coverage{8, keys({1, 4, 7}), keys({0, 2, 3, 5, 6}), {}});
  CHECK(cover(PartitionShard{5, 6}, 4) == Coverage{4, {}, keys({0, 1, 2, 3}), {}});
  CHECK(cover(keys({0, 2}), 4) == Coverage{4, keys({0, 2}), keys({1, 3}), {}});
  CHECK(cover(keys({2, 4, 9}), 4) == Coverage{4, keys({2}), keys({0, 1, 3}), keys({4, 9})});
  CHECK(cover(AllPartitions{}, 0) == Coverage{});
  CHECK(cover(AllPartitions{}, std::numeric_limits<int>::min()).covered.empty());
  for (const int count : {32769, 40000, 65792, std::numeric_limits<int>::max()})
    CHECK_THROWS_WITH(cover(AllPartitions{}, count),
                      std::to_string(count) + " partitions are more than the 32768 that are possible");
}

TEST_CASE("a choice is refused when it names partitions that are not there") {
  CHECK(reason_against(cover(AllPartitions{}, 4)).empty());
  CHECK(reason_against(cover(PartitionShard{5, 6}, 4)).empty());
  CHECK(reason_against(cover(keys({0, 2}), 4)).empty());
  CHECK(reason_against(cover(partition_range({2}, {5}), 4)) ==
        "partitions 4-5 are not there: ff_partition_config has 4 (0-3)");
}

TEST_CASE("a choice of partitions is written as a configuration has it") {
  CHECK(format_choice(AllPartitions{}) == "all");
  CHECK(format_choice(PartitionShard{1, 4}) == "{shard: 1, of: 4}");
  CHECK(format_choice(keys({0, 1, 2, 128})) == "0-2,128");
}

TEST_CASE("the shards of a set cover each key exactly once") {
  const auto all = partition_range({0}, {9});
  Partitions together;
  for (int shard = 0; shard < 3; ++shard) {
    for (const PartitionKey key : shard_of(all, shard, 3)) together.push_back(key);
  }
  std::sort(together.begin(), together.end());
  CHECK(together == all);
  CHECK(shard_of(all, 1, 4) == keys({1, 5, 9}));
  CHECK(shard_of(all, 0, 1) == all);
}

TEST_CASE("a uuid is read in its canonical form and in either case") {
  CHECK(to_string(parse_uuid(kUuid).value()) == kUuid);
  CHECK(parse_uuid("0190C5A4-7F3E-7B1A-9C2D-3E4F5A6B7C8D") == parse_uuid(kUuid));
}

TEST_CASE("anything else is no uuid") {
  const auto* text =
      GENERATE("", "0190c5a4", "0190c5a47f3e7b1a9c2d3e4f5a6b7c8d", "{0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d}",
               "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8", "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8dd",
               "0190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8g", "0190c5a47-f3e-7b1a-9c2d-3e4f5a6b7c8d",
               "0190c5a4_7f3e_7b1a_9c2d_3e4f5a6b7c8d", " 190c5a4-7f3e-7b1a-9c2d-3e4f5a6b7c8d");
  CAPTURE(text);
  CHECK(!parse_uuid(text));
}

TEST_CASE("an execution's name is read and written alike") {
  const auto id = parse_execution_id(std::string("{fp:42}:") + kUuid);
  REQUIRE(id);
  CHECK(id->partition.value == 42);
  CHECK(to_string(id->uuid) == kUuid);
  CHECK(to_string(*id) == std::string("{fp:42}:") + kUuid);
  CHECK(parse_execution_id(std::string("{fp:32767}:") + kUuid)->partition.value == 32767);
}

TEST_CASE("a malformed execution's name is nothing") {
  const std::string uuid = kUuid;
  const std::string text = GENERATE_COPY(
      std::string(), uuid, "{fp:}:" + uuid, "{fp:-1}:" + uuid, "{fp:+1}:" + uuid, "{fp:32768}:" + uuid,
      "{fp:99999999999}:" + uuid, "{fp: 1}:" + uuid, "{fp:1 }:" + uuid, "{fp:0x1}:" + uuid,
      "{fp:1.0}:" + uuid, "{fp:a}:" + uuid, "{FP:1}:" + uuid, "fp:1:" + uuid, "{fp:1}" + uuid,
      "{fp:1}::" + uuid, "{fp:1}: " + uuid, "{fp:1}:" + uuid + " ", "{fp:1}:" + uuid + "x", " {fp:1}:" + uuid,
      "{fp:1}:{" + uuid + "}", std::string("{fp:1}:"), std::string("{fp:1}:x"), "{ep:1}:" + uuid);
  CAPTURE(text);
  CHECK(!parse_execution_id(text));
}

TEST_CASE("Unix milliseconds keep their value and become seconds") {
  CHECK(count(unix_millis(1'700'000'000'123)) == 1'700'000'000'123);
  CHECK(unix_seconds(unix_millis(1'500)) == 1.5);
  CHECK(seconds(250ms) == 0.25);
}

TEST_CASE("a log scope gives its id to its own thread for as long as it lives") {
  CHECK(LogScope::current() == 0);
  {
    const LogScope scope(7);
    CHECK(LogScope::current() == 7);
    std::uint64_t elsewhere = 1;
    std::thread([&] { elsewhere = LogScope::current(); }).join();
    CHECK(elsewhere == 0);
  }
  CHECK(LogScope::current() == 0);
  const auto first = next_log_id();
  CHECK(next_log_id() > first);
}
