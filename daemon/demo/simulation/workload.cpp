#include "demo/simulation/workload.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include "demo/simulation/budget_spender.hpp"
#include "demo/simulation/flow_maker.hpp"
#include "demo/simulation/outage.hpp"
#include "demo/simulation/quota_user.hpp"
#include "demo/simulation/register.hpp"
#include "demo/simulation/short_lived.hpp"
#include "demo/simulation/signal_sender.hpp"
#include "demo/simulation/simulated_worker.hpp"
#include "demo/simulation/special_cases.hpp"

namespace ff::simulation {
namespace {

constexpr Milliseconds kConnectTime{10'000};
constexpr Milliseconds kBetweenConnections{200};
constexpr Milliseconds kBetweenRounds{150};
constexpr std::size_t kHappeningsKept = 100;
constexpr int kMostRetries = 3;
constexpr int kPortion = 6;  // executions of one policy made together

// $1 partition keys, $2 lane
constexpr std::string_view kWaiting = R"sql(
  SELECT count(*) FROM ff_exec_core
   WHERE partition_key = ANY($1) AND lane_id = $2 AND lifecycle_phase = 'runnable')sql";

}  // namespace

Workload::Workload(const pg::Connector& connector, WorkloadOptions options)
    : connector_(connector),
      options_(std::move(options)),
      workers_(static_cast<std::size_t>(options_.workers)) {
  try {
    start();
  } catch (...) {
    end();
    throw;
  }
}

Workload::~Workload() {
  end();
}

void Workload::start() {
  ledger_.found(options_.past);
  const auto thread = [this](const std::string& name, std::function<void(pg::Connection&)> body) {
    threads_.emplace_back([this, name, body = std::move(body)] { run(name, body); });
    ++running_;
  };
  thread("the maker of executions", [this](pg::Connection& connection) { keep_backlog(connection); });
  thread("the maker of special cases",
         [this](pg::Connection& connection) { SpecialCases(*this, connection).live(); });
  thread("the maker of flows", [this](pg::Connection& connection) { FlowMaker(*this, connection).live(); });
  thread("the sender of signals",
         [this](pg::Connection& connection) { SignalSender(*this, connection).live(); });
  thread("the register of workers",
         [this](pg::Connection& connection) { Register(*this, connection).live(); });
  if (options_.short_lived)
    thread("the maker of what is kept for a second",
           [this](pg::Connection& connection) { ShortLived(*this, connection).live(); });
  if (options_.budgets) {
    thread("the spender of budgets",
           [this](pg::Connection& connection) { BudgetSpender(*this, connection).live(); });
    thread("the user of a quota",
           [this](pg::Connection& connection) { QuotaUser(*this, connection).live(); });
  }
  for (std::size_t slot = 0; slot < workers_.size(); ++slot)
    thread("worker " + std::to_string(slot + 1),
           [this, slot](pg::Connection& connection) { SimulatedWorker(*this, slot, connection).live(); });
}

void Workload::end() {
  finishing_ = true;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  interrupt_.raise();
}

void Workload::finish() {
  finishing_ = true;
}

void Workload::run(const std::string& name, const std::function<void(pg::Connection&)>& body) {
  try {
    while (!live_until_an_outage(body) && pause(kBetweenConnections)) {
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (!stopping_) errors_.push_back(name + ": " + error.what());
  }
  --running_;
}

// True: it has lived to its end.
bool Workload::live_until_an_outage(const std::function<void(pg::Connection&)>& body) {
  std::optional<pg::Connection> connection;
  try {
    connection.emplace(connector_.connect(Clock::system().now() + kConnectTime, &interrupt_));
    body(*connection);
    return true;
  } catch (const pg::Error& error) {
    if (!options_.outlives_outages || !is_an_outage(error)) throw;
    if (connection) ledger_.interrupted();
    return false;
  }
}

void Workload::keep_backlog(pg::Connection& connection) {
  std::mt19937_64 generator{std::random_device{}()};
  std::uniform_int_distribution<int> die(-1, kMostRetries);  // -1: no policy at all
  Partitions partitions = options_.partitions;
  NewExecution next;
  next.lane = options_.name;
  next.name_space = options_.name;
  while (!finishing_) {
    const auto waiting =
        connection.execute(kWaiting, pg::Params::of(partitions, options_.name)).one().get<std::int64_t>(0);
    for (auto missing = options_.backlog - waiting; missing > 0; missing -= kPortion) {
      const int retries = die(generator);
      next.max_retries = retries < 0 ? std::nullopt : std::optional(retries);
      std::shuffle(partitions.begin(), partitions.end(), generator);
      const auto number = static_cast<int>(std::min<std::int64_t>(missing, kPortion));
      // A worker that meets one of them before the ledger knows it takes it for one without retries.
      ledger_.created(create(connection, next, partitions, number), next.max_retries);
    }
    if (!pause(kBetweenRounds)) return;
  }
}

void Workload::will_go_on(const ExecutionId& execution) {
  plans_.note([&] {
    return std::map<Uuid, Plan>{{execution.uuid, {.kind = Plan::Kind::complete, .length = kWorkAfterAnswer}}};
  });
}

void Workload::answer_in(const ExecutionId& execution, Milliseconds time) {
  const std::lock_guard lock(mutex_);
  answers_.emplace_back(Clock::system().now() + time, execution);
}

std::vector<ExecutionId> Workload::answers_due() {
  const SteadyTime now = Clock::system().now();
  const std::lock_guard lock(mutex_);
  std::vector<ExecutionId> due;
  std::erase_if(answers_, [&](const auto& answer) {
    if (answer.first <= now) due.push_back(answer.second);
    return answer.first <= now;
  });
  return due;
}

bool Workload::pause(Milliseconds length) const {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, length, [this] { return stopping_; });
}

void Workload::show(std::size_t slot, WorkerState state) {
  const std::lock_guard lock(mutex_);
  workers_[slot] = std::move(state);
}

std::vector<WorkerState> Workload::workers() const {
  const std::lock_guard lock(mutex_);
  return workers_;
}

std::vector<Happening> Workload::latest(std::size_t most) const {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<std::ptrdiff_t>(std::min(most, happenings_.size()));
  return {happenings_.end() - number, happenings_.end()};
}

void Workload::tell(std::string text) {
  const std::lock_guard lock(mutex_);
  happenings_.push_back({Clock::system().now(), std::move(text)});
  if (happenings_.size() > kHappeningsKept) happenings_.pop_front();
}

std::vector<std::string> Workload::errors() const {
  const std::lock_guard lock(mutex_);
  return errors_;
}

}  // namespace ff::simulation
