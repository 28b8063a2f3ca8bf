// What a row may hold: numbers, ids, snapshots, events of leases, and the JSON of a plan. And arrays, which go the other
// way: whatever the elements, the server has to read the same out of them.
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "check/plan.hpp"
#include "lease/event.hpp"
#include "pg/params.hpp"
#include "pg/value.hpp"
#include "promise.hpp"
#include "reconcile/sightings.hpp"

namespace {

using namespace ff;

/// The elements of an array as the server reads them: here all of them stand in quotes.
std::vector<std::string> elements_of(const std::string& array) {
  std::vector<std::string> elements;
  bool within = false;
  for (std::size_t i = 1; i + 1 < array.size(); ++i) {
    if (array[i] == '"') {
      within = !within;
      if (within) elements.emplace_back();
    } else if (within) {
      elements.back() += array[i] == '\\' ? array[++i] : array[i];
    }
  }
  return elements;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

template <class Number>
void read_number(const std::string& text) {
  const auto number = pg::read_value<Number>(text);
  if (!number) return;
  const pg::Params written = pg::Params::of(*number);
  fuzz::promise(pg::read_value<Number>(*written.values().front()) == number,
                "a number is read as it was written", text);
}

void read_ids(const std::string& text) {
  if (const auto uuid = pg::read_value<Uuid>(text))
    fuzz::promise(parse_uuid(to_string(*uuid)) == uuid, "a uuid is read as it was written", text);
  if (const auto id = parse_execution_id(text))
    fuzz::promise(parse_execution_id(to_string(*id)) == id, "an execution is read as it was written", text);
}

void read_snapshot(const std::string& text) {
  reconcile::Sightings sightings;
  try {
    sightings.note(unix_millis(1), text, 1);
    sightings.note(unix_millis(2), text, 1);
  } catch (const std::runtime_error&) {
    return;
  }
  for (const std::uint32_t transaction : {0U, 3U, 0xffffffffU}) {
    const auto when = sightings.written(transaction);
    fuzz::promise(when.after <= when.seen, "a row is written after it was not there", text);
  }
}

// Numbers in the first line, the type in the second, the execution in the third.
void read_event(const std::vector<std::string>& lines) {
  if (lines.size() < 3) return;
  lease::OutboxRow row;
  row.event_id = pg::read_value<std::int64_t>(lines[0]).value_or(0);
  row.occurred_at_ms = row.event_id;
  row.partition_key = pg::read_value<std::int32_t>(lines[0]).value_or(0);
  row.event_type = lines[1];
  row.execution_id = lines[2];
  const auto event = lease::event_of(row);
  if (!event) return;
  fuzz::promise(wire_name(type_of(*event)) == lines[1], "an event has the type of its row", lines[1]);
  fuzz::promise(occurrence(*event).cursor.event_id == row.event_id, "an event has the id of its row",
                lines[0]);
}

void read_plan(const std::string& text) {
  const auto plan = nlohmann::json::parse(text, nullptr, false);
  if (plan.is_discarded()) return;
  try {
    check::indexes_used(plan);
    check::wholly_read(plan);
  } catch (const nlohmann::json::exception&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const std::vector<std::string> lines = lines_of(text);
  const pg::Params array = pg::Params::of(lines);
  fuzz::promise(elements_of(*array.values().front()) == lines, "an array has its elements",
                *array.values().front());
  read_number<std::int16_t>(text);
  read_number<std::int32_t>(text);
  read_number<std::int64_t>(text);
  read_number<PartitionKey>(text);
  pg::read_value<double>(text);
  read_ids(text);
  read_snapshot(text);
  read_event(lines);
  read_plan(text);
  return 0;
}
