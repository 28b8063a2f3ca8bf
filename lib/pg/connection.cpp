#include "pg/connection.hpp"

#include <libpq-fe.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <future>
#include <iterator>
#include <system_error>
#include <thread>
#include <vector>

#include "base/printable.hpp"
#include "pg/sqlstate.hpp"
#include "pg/wait.hpp"

namespace ff::pg {
namespace {

// The server is asked to give up first; only when it does not even say so do we.
constexpr Milliseconds kAnswerSlack{5000};
constexpr Milliseconds kLongestCancel{1000};

// For a statement by itself, which is a transaction of its own: no schema on the path in which somebody else may create,
// no rows that are hidden in silence, the time for which we wait ($1) and not a role's. The server begins to count it with the
// first message behind each statement of a pipeline.
constexpr std::string_view kOwnSettings = R"sql(
SELECT pg_catalog.set_config('search_path', 'pg_catalog', true),
       pg_catalog.set_config('standard_conforming_strings', 'on', true),
       pg_catalog.set_config('row_security', 'off', true),
       pg_catalog.set_config('statement_timeout', $1, true))sql";

// The name tells the text: behind a pooler another client may have prepared its own under a mere number, and
// that would be run instead.
std::string name_of(std::string_view text) {
  return "ff_" + std::to_string(std::hash<std::string_view>{}(text));
}

std::string text_of(const char* value) {
  return value == nullptr ? "" : value;
}

std::string without_end_of_line(const char* message) {
  std::string text = text_of(message);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

Error server_error(const PGresult* result, std::string_view sql) {
  const auto field = [&](int code) { return without_end_of_line(PQresultErrorField(result, code)); };
  std::string message = printable(field(PG_DIAG_MESSAGE_PRIMARY));
  if (message.empty()) message = printable(without_end_of_line(PQresultErrorMessage(result)));
  const std::string sqlstate = field(PG_DIAG_SQLSTATE);
  if (!sqlstate.empty()) message += " (SQLSTATE " + named_sqlstate(sqlstate) + ")";
  // It may hold a whole row with what a customer keeps in it: for whoever debugs, and for nobody else.
  if (const auto detail = field(PG_DIAG_MESSAGE_DETAIL); !detail.empty())
    spdlog::debug("server: {}: {}", message, printable(detail));
  // An error without a SQLSTATE is libpq's own: the connection broke while it waited. With FATAL the server ends the
  // session; any other error leaves it, whatever its code says, which a trigger may have chosen.
  // PgBouncer says the severity in the server's language only, and that is English.
  std::string severity = field(PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity.empty()) severity = field(PG_DIAG_SEVERITY);
  const bool ended = sqlstate.empty() || severity == "FATAL" || severity == "PANIC";
  const auto kind = ended ? Error::Kind::connection : Error::Kind::server;
  // A statement that is lost, or there already, is refused before anything runs, and so without a context. What a function
  // raises has one; only one in C may have none, and then the session prepares nothing any more.
  return Error(kind, message, sqlstate, std::string(sql), !field(PG_DIAG_CONTEXT).empty());
}

bool is_outside_transaction(const pg_conn* connection) {
  return PQtransactionStatus(connection) == PQTRANS_IDLE;
}

// To a session that is asked nothing a server says nothing but that it ends it, if that.
bool is_ended_by_server(const pg_conn* connection) {
  pollfd polled{PQsocket(connection), POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

// The values of a statement as libpq wants them.
class Pointers {
 public:
  explicit Pointers(const Params& params) {
    pointers_.reserve(params.size());
    for (const auto& value : params.values()) pointers_.push_back(value ? value->c_str() : nullptr);
  }
  int count() const { return static_cast<int>(pointers_.size()); }
  const char* const* data() const { return pointers_.data(); }

 private:
  std::vector<const char*> pointers_;
};

}  // namespace

Connection::Connection(pg_conn* owned, Milliseconds statement_timeout, const Interrupt* interrupt)
    : connection_(owned), statement_timeout_(statement_timeout), interrupt_(interrupt) {}

Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

void Connection::Finish::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

SteadyTime Connection::default_deadline() const {
  const SteadyTime own = Clock::system().now() + statement_timeout_ + kAnswerSlack;
  return all_end_by_ ? std::min(own, *all_end_by_) : own;
}

// Whoever waits longer than usual gives the server as much longer.
Milliseconds Connection::timeout_until(SteadyTime deadline) const {
  constexpr Milliseconds kLongest = std::chrono::hours{24};
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::system().now());
  return std::max(statement_timeout_, std::min(left - kAnswerSlack, kLongest));
}

bool Connection::lost() const {
  return !connection_ || PQstatus(connection_.get()) != CONNECTION_OK;
}

bool Connection::idle() const {
  return !lost() && !opening_ && is_outside_transaction(connection_.get()) &&
         !is_ended_by_server(connection_.get());
}

void Connection::close() {
  connection_.reset();
}

std::string Connection::description() const {
  if (!connection_) return "closed";
  const pg_conn* c = connection_.get();
  return text_of(PQhost(c)) + ":" + text_of(PQport(c)) + "/" + text_of(PQdb(c)) + " as " + text_of(PQuser(c));
}

std::string Connection::server() const {
  if (!connection_) return "closed";
  const pg_conn* c = connection_.get();
  const std::string host = text_of(PQhost(c));
  const std::string address = text_of(PQhostaddr(c));
  const bool is_name = !address.empty() && address != host;
  return host + ":" + text_of(PQport(c)) + (is_name ? " (" + address + ")" : "");
}

Result Connection::execute(std::string_view sql, const Params& params) {
  return execute(sql, params, default_deadline());
}

Result Connection::execute(std::string_view sql, const Params& params, SteadyTime deadline) {
  return std::move(execute_all({{std::string(sql), params}}, deadline).front());
}

Result Connection::execute_prepared(std::string_view sql, const Params& params) {
  return std::move(execute_all({{std::string(sql), params, Plan::generic}}, default_deadline()).front());
}

// What belongs in front of the statements goes with them.
std::vector<Result> Connection::execute_all(std::vector<Call> calls, SteadyTime deadline) {
  const bool alone = !lost() && !opening_ && is_outside_transaction(connection_.get());
  if (alone || opening_) give_back_surplus();
  std::vector<Call> all;
  if (auto opening = std::exchange(opening_, std::nullopt)) {
    all.push_back({std::string(opening->begin)});
    all.push_back({std::string(opening->settings), std::move(opening->values), Plan::generic});
  } else if (alone && catalog_only_) {
    all.push_back({std::string(kOwnSettings), Params::of(std::to_string(timeout_until(deadline).count())),
                   Plan::generic});
  }
  const auto before = static_cast<std::ptrdiff_t>(all.size());
  std::ranges::move(calls, std::back_inserter(all));
  std::vector<Result> results = exchange(all, deadline);
  results.erase(results.begin(), results.begin() + before);
  return results;
}

// Everything is read, so that the connection is ready for the next statement; the first error wins.
std::vector<Result> Connection::exchange(std::span<const Call> calls, SteadyTime deadline) {
  if (calls.empty()) return {};
  const std::string_view first = calls.front().sql;
  if (PQenterPipelineMode(usable(first)) == 0) fail(Error::Kind::connection, first);
  std::vector<std::string> preparing;
  for (const Call& call : calls) preparing.push_back(send(call));
  if (PQpipelineSync(connection_.get()) == 0) fail(Error::Kind::connection, first);
  flush(deadline, first);

  std::vector<Result> results;
  std::optional<Error> error;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!preparing[i].empty() && !receive(calls[i].sql, deadline, error)) prepared_.erase(preparing[i]);
    if (auto result = receive(calls[i].sql, deadline, error)) results.push_back(std::move(*result));
  }
  await_sync(calls.back().sql, deadline, error);
  if (PQexitPipelineMode(connection_.get()) == 0) fail(Error::Kind::connection, first);
  if (error && error->statement_name_lost()) may_prepare_ = false;
  if (error) throw *error;
  return results;
}

// Outside a transaction the sync commits. What fails there, such as a deferred constraint, comes ahead of it, and then none of
// the statements has happened.
void Connection::await_sync(std::string_view sql, SteadyTime deadline, std::optional<Error>& error) {
  for (;;) {
    const auto result = next_result(sql, deadline);
    if (!result) fail(Error::Kind::connection, sql);
    if (PQresultStatus(result->result_.get()) == PGRES_PIPELINE_SYNC) return;
    keep_first(result->result_.get(), sql, error);
    if (next_result(sql, deadline)) fail(Error::Kind::connection, sql);  // libpq's null behind each error
  }
}

// Returns the name of the statement if it is prepared first.
std::string Connection::send(const Call& call) {
  const Pointers values(call.params);
  std::string text = located(call.sql);
  const unsigned* types = call.params.types().data();
  using Way = StatementCache::Way;
  Way way = Way::unprepared;
  std::string name;
  if (call.plan == Plan::generic && may_prepare_) {
    name = name_of(text);
    way = prepared_.send(name, call.narrower.empty() ? 1 : kWorthAPlan);
  }
  if (way == Way::unprepared && !call.narrower.empty()) text = located(call.narrower);
  if (way == Way::prepare &&
      PQsendPrepare(connection_.get(), name.c_str(), text.c_str(), values.count(), types) == 0)
    fail(Error::Kind::connection, call.sql);
  int sent = 0;
  if (way == Way::unprepared) {
    sent = PQsendQueryParams(connection_.get(), text.c_str(), values.count(), types, values.data(), nullptr,
                             nullptr, 0);
  } else {
    sent = PQsendQueryPrepared(connection_.get(), name.c_str(), values.count(), values.data(), nullptr,
                               nullptr, 0);
  }
  if (sent == 0) fail(Error::Kind::connection, call.sql);
  return way == Way::prepare ? name : std::string();
}

// What is not in a transaction may fail: a pooler that keeps prepared statements gives them names of its own, and then
// nothing is given back, nor prepared any more. After any other error it is tried again before the next statement.
void Connection::give_back_surplus() {
  for (auto surplus = prepared_.surplus(); may_prepare_ && surplus; surplus = prepared_.surplus()) {
    const Call call{"DEALLOCATE " + *surplus};
    try {
      exchange({&call, 1}, default_deadline());
      prepared_.erase(*surplus);
    } catch (const Error& error) {
      if (lost()) throw;
      return;
    }
  }
}

bool Connection::has_prepared(std::string_view sql) const {
  return prepared_.contains(name_of(located(sql)));
}

std::string Connection::located(std::string_view sql) const {
  constexpr std::string_view kPrefix = "{schema}.";
  constexpr std::string_view kText = "{schema_text}";
  std::string text;
  while (!sql.empty()) {
    const bool prefix = sql.starts_with(kPrefix);
    if (prefix || sql.starts_with(kText)) {
      text += prefix ? schema_.prefix : schema_.text;
      sql.remove_prefix(prefix ? kPrefix.size() : kText.size());
      continue;
    }
    const auto next = std::min(sql.find('{', 1), sql.size());
    text += sql.substr(0, next);
    sql.remove_prefix(next);
  }
  return text;
}

pg_conn* Connection::usable(std::string_view sql) {
  if (abandoned_ && abandoned_->raised()) {
    close();
    throw Error(Error::Kind::connection, std::string(kAbandoned) + "this session is asked nothing any more",
                {}, std::string(sql));
  }
  if (!connection_) throw Error(Error::Kind::connection, "the connection is closed", {}, std::string(sql));
  return connection_.get();
}

Result Connection::execute_script(const std::string& sql) {
  return execute_script(sql, default_deadline());
}

Result Connection::execute_script(const std::string& sql, SteadyTime deadline) {
  if (opening_) execute_all({}, deadline);
  if (PQsendQuery(usable(sql), located(sql).c_str()) == 0) fail(Error::Kind::connection, sql);
  return collect(sql, deadline);
}

// What a statement sent alone has to say: the last result of it, or the first error.
Result Connection::collect(std::string_view sql, SteadyTime deadline) {
  flush(deadline, sql);
  std::optional<Error> error;
  auto last = receive(sql, deadline, error);
  if (error) throw *error;
  if (!last) fail(Error::Kind::connection, sql);
  return std::move(*last);
}

// With its reason the server ends the session: what comes behind it is the end, of which libpq would say that the server
// has probably crashed.
void Connection::keep_first(const pg_result* result, std::string_view sql, std::optional<Error>& error) {
  Error told = server_error(result, sql);
  if (told.connection_lost()) {
    close();
    throw told;
  }
  if (!error) error = std::move(told);
}

// All results of one statement, up to libpq's null: the last one, where it succeeded. Of errors the first is kept.
std::optional<Result> Connection::receive(std::string_view sql, SteadyTime deadline,
                                          std::optional<Error>& error) {
  std::optional<Result> last;
  bool failed = false;
  while (auto result = next_result(sql, deadline)) {
    const auto status = PQresultStatus(result->result_.get());
    const bool is_good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    failed = failed || !is_good;
    if (!is_good && status != PGRES_PIPELINE_ABORTED) keep_first(result->result_.get(), sql, error);
    last = std::move(result);
  }
  return failed ? std::nullopt : std::move(last);
}

std::optional<Result> Connection::next_result(std::string_view sql, SteadyTime deadline) {
  while (PQisBusy(connection_.get()) != 0) {
    wait(false, deadline, sql);
    if (PQconsumeInput(connection_.get()) == 0) fail(Error::Kind::connection, sql);
  }
  PGresult* next = PQgetResult(connection_.get());
  return next == nullptr ? std::nullopt : std::optional<Result>(std::in_place, next);
}

void Connection::flush(SteadyTime deadline, std::string_view sql) {
  for (;;) {
    const int left = PQflush(connection_.get());
    if (left == 0) return;
    if (left < 0) fail(Error::Kind::connection, sql);
    wait(true, deadline, sql);
    // The server may be blocked on sending to us: read, so that it goes on reading.
    if (PQconsumeInput(connection_.get()) == 0) fail(Error::Kind::connection, sql);
  }
}

void Connection::wait(bool for_write, SteadyTime deadline, std::string_view sql) {
  try {
    wait_for(PQsocket(connection_.get()), for_write, deadline, interrupt_, "an answer", abandoned_.get());
  } catch (const Error& error) {
    if (error.interrupted()) cancel();
    close();
    throw Error(error.kind(), error.what(), {}, std::string(sql));
  }
}

// PQcancel makes a connection of its own, waits for its end, and knows no deadline: where the server hangs, it
// would hang with it. So it runs beside us, and is left to itself when it takes too long.
void Connection::cancel() {
  const std::shared_ptr<PGcancel> request(PQgetCancel(connection_.get()), PQfreeCancel);
  if (!request) return;
  const auto done = std::make_shared<std::promise<void>>();
  const std::future<void> sent = done->get_future();
  try {
    std::thread([request, done] {
      std::array<char, 256> reason{};
      PQcancel(request.get(), reason.data(), static_cast<int>(reason.size()));
      done->set_value();
    }).detach();
  } catch (const std::system_error& error) {
    spdlog::warn("a statement was not cancelled on the server: {}", error.what());
    return;
  }
  sent.wait_for(kLongestCancel);
  // A request that fails changes nothing: the connection is closed next, and the server's statement_timeout
  // remains.
}

void Connection::fail(Error::Kind kind, std::string_view sql) {
  const std::string message =
      printable(connection_ ? PQerrorMessage(connection_.get()) : "the connection is closed");
  close();
  throw Error(kind, message, {}, std::string(sql));
}

}  // namespace ff::pg
