#include "support/holders.hpp"

#include "demo/simulation/outage.hpp"
#include "support/database.hpp"

namespace ff::test {
namespace {

using namespace std::chrono_literals;

constexpr Milliseconds kBetweenConnections = 100ms;

}  // namespace

Holders::Holders(const pg::Connector& connector, int number, PartitionKey partition, Milliseconds lease,
                 std::string lane)
    : connector_(connector), partition_(partition), lease_(lease), lane_(std::move(lane)) {
  for (int i = 0; i < number; ++i)
    threads_.emplace_back([this, i](const std::stop_token& stop) { live(i, stop); });
}

// The server gives up on transactions that were silent for long: then over another connection.
void Holders::live(int number, const std::stop_token& stop) {
  std::optional<simulation::Claim> claim;
  for (bool held = true; held && !stop.stop_requested();) {
    try {
      auto db = connector_.connect(Clock::system().now() + kConnectTime);
      simulation::Worker worker(db, "holder-" + std::to_string(number), lease_, lane_);
      held = hold(worker, claim, stop);
    } catch (const pg::Error& error) {
      if (!simulation::is_an_outage(error)) throw;
      std::this_thread::sleep_for(kBetweenConnections);
    }
  }
}

bool Holders::hold(simulation::Worker& worker, std::optional<simulation::Claim>& claim,
                   const std::stop_token& stop) {
  if (!claim && (claim = worker.claim({partition_}))) ++holding_;
  while (claim && !stop.stop_requested()) {
    if (!worker.renew(*claim)) {
      ++refused_;
      return false;
    }
    std::this_thread::sleep_for(lease_ / 10);
  }
  return true;
}

}  // namespace ff::test
