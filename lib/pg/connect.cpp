#include "pg/connect.hpp"

#include <libpq-fe.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>

#include "base/printable.hpp"
#include "base/small_file.hpp"
#include "base/text.hpp"
#include "pg/sqlstate.hpp"
#include "pg/wait.hpp"

namespace ff::pg {
namespace {

constexpr auto npos = std::string_view::npos;
// A place that did not answer holds up those that do: for so long it gets a part only of the usual time.
constexpr Milliseconds kDarkTime{15'000};
constexpr int kDarkPart = 3;
constexpr std::size_t kLongestAnswer = 65'536;  // bytes of a refusal that are read at all

// A peer that has gone without a word is noticed within half a minute, whether we wait for it or talk to it.
const std::array<std::pair<const char*, const char*>, 4> kDetection{{{"keepalives_idle", "10"},
                                                                     {"keepalives_interval", "5"},
                                                                     {"keepalives_count", "3"},
                                                                     {"tcp_user_timeout", "10000"}}};

std::string place_of(const Keywords& server) {
  const std::string& host = server.at("host");
  const std::string& address = server.at("hostaddr");
  return (host.empty() ? address : host) + ":" + server.at("port");
}

// The same server by each address of its name. Tried one by one, a dark address takes only its share of the
// time; libpq, given the name, would spend all of it there. A name that nobody knows is left to libpq, which
// says so.
std::vector<Keywords> addresses_of(const Keywords& server) {
  const std::string& host = server.at("host");
  const bool is_socket = host.empty() || host[0] == '/' || host[0] == '@';
  if (is_socket || !server.at("hostaddr").empty()) return {server};
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return {server};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  std::vector<Keywords> places;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(address->ai_addr, address->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    places.push_back(server);
    places.back()["hostaddr"] = text.data();
  }
  return places.empty() ? std::vector{server} : places;
}

std::string read_password(const std::string& path) {
  try {
    std::string password = read_small_file(path);
    if (!password.empty() && password.back() == '\n') password.pop_back();
    if (password.empty()) throw std::runtime_error("is empty (write the password into its first line)");
    return password;
  } catch (const std::runtime_error& error) {
    throw Error(Error::Kind::connection, "the password file " + path + ": " + error.what());
  }
}

// libpq 15 has no function that returns the SQLSTATE of a connection that was refused, but says it in the
// text when it is asked to be verbose: "FATAL:  28P01: password authentication failed …" and a line with the
// place in its source. The codes of a refusal begin with a digit, unlike the word FATAL.
std::string sqlstate_in(std::string_view message) {
  constexpr std::size_t kLength = 5;
  for (auto at = message.find(": "); at != npos; at = message.find(": ", at + 1)) {
    const auto begin = std::min(message.find_first_not_of(' ', at + 1), message.size());
    const auto word = message.substr(begin, kLength);
    const bool is_code =
        std::ranges::all_of(word, [](char c) { return is_digit(c) || (c >= 'A' && c <= 'Z'); });
    if (word.size() == kLength && is_code && is_digit(word[0]) && message.substr(begin + kLength, 2) == ": ")
      return std::string(word);
  }
  return {};
}

std::string without_locations(const std::string& message) {
  std::istringstream lines(message);
  std::string kept;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("LOCATION:")) kept += line + '\n';
  return kept;
}

Error refused(const PGconn* connection) {
  // Whoever answers may not be a server, and has not yet been asked who it is.
  std::string message = std::string(PQerrorMessage(connection)).substr(0, kLongestAnswer);
  const std::string sqlstate = sqlstate_in(message);
  message = printable(without_locations(message));
  if (const auto at = message.find(' ' + sqlstate + ": "); !sqlstate.empty() && at != npos)
    message.replace(at + 1, sqlstate.size(), named_sqlstate(sqlstate));
  return Error(Error::Kind::connection, message, sqlstate);
}

// What servers tell besides results (a deprecation, an index that exists already) is for whoever debugs.
void log_notice(void*, const char* message) {
  spdlog::debug("server: {}", printable(message));
}

void establish(PGconn* connection, SteadyTime deadline, const Interrupt* interrupt, std::string_view place) {
  if (PQstatus(connection) == CONNECTION_BAD) throw refused(connection);
  PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
  PQsetNoticeProcessor(connection, log_notice, nullptr);
  const std::string what = "a connection to " + std::string(place);
  for (PostgresPollingStatusType state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
    // The descriptor may change from one step to the next: libpq tries again without encryption where it may.
    wait_for(PQsocket(connection), state == PGRES_POLLING_WRITING, deadline, interrupt, what);
    state = PQconnectPoll(connection);
    if (state == PGRES_POLLING_FAILED) throw refused(connection);
  }
  PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
  if (PQsetnonblocking(connection, 1) != 0) throw refused(connection);
}

// When the server was started: in the form of ServerInfo.
constexpr std::string_view kSession = R"sql(
SELECT pg_catalog.pg_backend_pid(),
       pg_catalog.floor(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000)::pg_catalog.int8)sql";

// $1 the relation. As the one before, it is run with the session's own search_path, on which anybody may have put
// whatever he likes: so every function and operator in it is named with its schema.
constexpr std::string_view kSchema = R"sql(
SELECT pg_catalog.quote_ident(found.name), pg_catalog.quote_literal(pg_catalog.quote_ident(found.name) OPERATOR(pg_catalog.||) '.')
  FROM (SELECT coalesce((SELECT n.nspname
                           FROM pg_catalog.pg_class c
                           JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
                          WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass($1)::pg_catalog.oid),
                        pg_catalog.current_schema())::pg_catalog.text AS name) found
 WHERE found.name IS NOT NULL)sql";

// Whoever answers may not be a server, and what he answers no answer.
template <typename Read>
auto understood(const Connection& connection, const Read& read) {
  try {
    return read();
  } catch (const std::runtime_error& error) {
    throw Error(Error::Kind::connection,
                connection.description() + " does not answer as PostgreSQL does: " + printable(error.what()));
  }
}

bool says_writable(Connection& connection, bool accept_default_read_only, SteadyTime deadline) {
  const Result answer = connection.execute(
      "SELECT NOT pg_catalog.pg_is_in_recovery() AND ($1 OR "
      "pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off')",
      Params::of(accept_default_read_only), deadline);
  return understood(connection, [&] { return answer.one().get<bool>(0); });
}

void refuse_statement_mode(Connection& connection, SteadyTime deadline) {
  const std::string place = connection.description();
  try {
    for (const char* step : {"BEGIN", "ROLLBACK"}) connection.execute_script(step, deadline);
  } catch (const Error& error) {
    if (error.interrupted() || error.kind() == Error::Kind::timeout) throw;
    throw Error(Error::Kind::connection,
                place +
                    " is a pooler that keeps no session for the length of a transaction: for this "
                    "database it needs pool_mode = session or transaction (" +
                    error.what() + ")");
  }
}

}  // namespace

Connector::Connector(ConnectOptions options) : options_(std::move(options)) {
  Conninfo conninfo = parse_conninfo(options_.conninfo);
  const std::string attrs = conninfo.value("target_session_attrs");
  accept_default_read_only_ = attrs == "primary";
  accept_read_only_ = !attrs.empty() && attrs != "read-write" && attrs != "primary";
  conninfo.given["target_session_attrs"] = "any";  // checked by connect_one, which can say what it found
  // As the configuration is, whatever a role or PGCLIENTENCODING says.
  conninfo.given["client_encoding"] = "UTF8";
  if (!options_.password.empty()) conninfo.given["password"] = options_.password;
  for (const auto& [keyword, value] : kDetection)
    if (conninfo.value(keyword).empty()) conninfo.given[keyword] = value;
  if (conninfo.value("application_name").empty())
    conninfo.given["fallback_application_name"] = options_.application_name;
  servers_ = servers_of(conninfo);

  if (is_readable_by_others(options_.password_file))
    spdlog::warn("the password file {} can be read by everybody on this machine", options_.password_file);
  description_ = conninfo.value("user") + "@";
  for (const Keywords& server : servers_)
    description_ += (&server == &servers_.front() ? "" : ",") + place_of(server);
  description_ += "/" + conninfo.value("dbname");
}

Connection Connector::connect(SteadyTime deadline, const Interrupt* interrupt) const {
  const std::vector<Place> places = places_in_turn();
  std::string message;
  auto kind = Error::Kind::connection;
  std::string sqlstate;
  bool some_answered = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    next_ = place.number + 1;
    const auto now = Clock::system().now();
    const auto share = (deadline - now) / static_cast<std::int64_t>(places.size() - i);
    const bool is_hurried = some_answered && now < place.dark_until;
    const Milliseconds most = is_hurried ? options_.connect_timeout / kDarkPart : options_.connect_timeout;
    try {
      Connection connection =
          connect_one(place.server, now + std::min<SteadyTime::duration>(share, most), interrupt);
      next_ = place.number;
      no_longer_dark(place);
      return connection;
    } catch (const Error& error) {
      if (error.interrupted()) throw;
      // The network may say at last that nobody is there; who is there has a word of its own.
      const bool has_answered = error.not_writable() || !error.sqlstate().empty();
      const bool is_dark =
          !has_answered && Clock::system().now() - now >= options_.connect_timeout / kDarkPart;
      some_answered = some_answered || has_answered;
      if (!is_dark) no_longer_dark(place);
      if (is_dark && !is_hurried) stayed_dark(place);
      if (error.not_writable()) kind = Error::Kind::not_writable;
      if (!error.sqlstate().empty()) sqlstate = error.sqlstate();
      message += (message.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(kind, message, sqlstate);
}

// The one that comes next first, and those last that did not answer.
std::vector<Connector::Place> Connector::places_in_turn() const {
  std::vector<Place> places;
  for (const Keywords& server : servers_)
    for (Keywords& address : addresses_of(server)) {
      std::string name = place_of(server) + ' ' + address.at("hostaddr");
      places.push_back({places.size(), std::move(address), std::move(name)});
    }
  // The newer forms of these two say no more, and clang 14 does not compile them.
  std::rotate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(next_ % places.size()),
              places.end());
  const std::lock_guard lock(mutex_);
  for (Place& place : places)
    if (const auto dark = dark_.find(place.name); dark != dark_.end()) place.dark_until = dark->second;
  std::stable_partition(places.begin(), places.end(),
                        [](const Place& place) { return place.dark_until == SteadyTime{}; });
  return places;
}

void Connector::no_longer_dark(const Place& place) const {
  const std::lock_guard lock(mutex_);
  dark_.erase(place.name);
}

void Connector::stayed_dark(const Place& place) const {
  const std::lock_guard lock(mutex_);
  dark_[place.name] = Clock::system().now() + kDarkTime;
}

// The schema of our tables, which server it is, and whether a pooler is in between: to its clients it gives process numbers of its own.
void Connector::get_to_know(Connection& connection, SteadyTime deadline) const {
  std::vector<Call> questions{{std::string(kSession)}};
  if (!options_.relation.empty()) questions.push_back({std::string(kSchema), Params::of(options_.relation)});
  const std::vector<Result> answers = connection.execute_all(std::move(questions), deadline);
  understood(connection, [&] {
    const Row session = answers[0].one();
    connection.may_prepare_ = session.get<std::int32_t>(0) == PQbackendPID(connection.connection_.get());
    connection.server_started_at_ = unix_millis(session.get<std::int64_t>(1));
  });
  if (!connection.may_prepare_) refuse_statement_mode(connection, deadline);
  if (options_.relation.empty()) return;
  understood(connection, [&] {
    for (const Row row : answers[1])
      connection.schema_ = {row.get<std::string>(0) + ".", row.get<std::string>(1)};
  });
  connection.catalog_only_ = true;
}

Connection Connector::connect_one(const Keywords& place, SteadyTime deadline,
                                  const Interrupt* interrupt) const {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : place) {
    if (keyword == "password" && !options_.password_file.empty()) continue;
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  std::string password;
  if (!options_.password_file.empty()) {
    password = read_password(options_.password_file);
    keywords.push_back("password");
    values.push_back(password.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);

  std::unique_ptr<PGconn, Connection::Finish> raw(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (!raw) throw Error(Error::Kind::connection, "out of memory");
  establish(raw.get(), deadline, interrupt, place_of(place));
  const auto reported = [&](const char* name) { return PQparameterStatus(raw.get(), name); };
  const char* standby = reported("in_hot_standby");
  const char* read_only = reported("default_transaction_read_only");
  const bool known = standby != nullptr && read_only != nullptr;
  const bool writable = known && std::string_view(standby) == "off" &&
                        (accept_default_read_only_ || std::string_view(read_only) == "off");
  Connection connection(raw.release(), options_.statement_timeout, interrupt);
  if (accept_read_only_ || writable) {
    get_to_know(connection, deadline);
    return connection;
  }
  // A pooler may not pass the two parameters on: then the server is asked.
  if (!known && says_writable(connection, accept_default_read_only_, deadline)) {
    get_to_know(connection, deadline);
    return connection;
  }
  throw Error(Error::Kind::not_writable,
              connection.description() + " takes no writes (a standby, or read-only)");
}

}  // namespace ff::pg
