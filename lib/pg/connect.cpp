#include "pg/connect.hpp"

#include <libpq-fe.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "pg/wait.hpp"

namespace ff::pg {
namespace {

using Keywords = std::map<std::string, std::string>;

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using OptionList = std::unique_ptr<PQconninfoOption, FreeOptions>;

void overlay(Keywords& keywords, const PQconninfoOption* option) {
  for (; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val != nullptr && *option->val != '\0') keywords[option->keyword] = option->val;
  }
}

// libpq's environment and defaults, overridden by what the conninfo says.
Keywords parse(const std::string& conninfo) {
  Keywords keywords;
  overlay(keywords, OptionList(PQconndefaults()).get());
  // Without the variable it is libpq's built-in `any` that stands there, which nobody has asked for.
  if (std::getenv("PGTARGETSESSIONATTRS") == nullptr) keywords.erase("target_session_attrs");
  char* message = nullptr;
  const OptionList parsed(PQconninfoParse(conninfo.c_str(), &message));
  const std::unique_ptr<char, void (*)(void*)> owned(message, PQfreemem);
  if (!parsed) {
    // libpq quotes the part at fault, and that part may be a password.
    const std::string reason = message == nullptr ? "out of memory" : message;
    throw std::invalid_argument("the connection string cannot be parsed: " +
                                std::regex_replace(reason, std::regex("\"[^\"]*\"|\n"), "…"));
  }
  overlay(keywords, parsed.get());
  return keywords;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  if (parts.empty()) parts.emplace_back();
  return parts;
}

std::string read_password(const std::string& path) {
  std::ifstream file(path);
  std::string password;
  std::getline(file, password, '\0');
  if (file.bad() || !file.is_open())
    throw Error(Error::Kind::connection, "the password file " + path + " cannot be read");
  if (!password.empty() && password.back() == '\n') password.pop_back();
  return password;
}

struct Finish {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};

// libpq 15 has no function that returns the SQLSTATE of a connection that was refused, but says it in the
// text when it is asked to be verbose: "FATAL:  28P01: password authentication failed …" and a line with the
// place in its source. The codes of a refusal begin with a digit, unlike the word FATAL.
Error refused(const PGconn* connection) {
  // Made once: threads whose connections are refused together must not make a regex together.
  struct Patterns {
    std::regex sqlstate{": +([0-9][0-9A-Z]{4}): "};
    std::regex location{"\nLOCATION:[^\n]*"};
    std::regex end{"\\s+$"};
    std::regex line{"\\s*\n\\s*"};
  };
  static const Patterns patterns;
  std::string message = PQerrorMessage(connection);
  std::string sqlstate;
  std::smatch found;
  if (std::regex_search(message, found, patterns.sqlstate)) sqlstate = found[1];
  message = std::regex_replace(message, patterns.location, "");
  message = std::regex_replace(message, patterns.end, "");
  message = std::regex_replace(message, patterns.line, " ");
  return Error(Error::Kind::connection, message, sqlstate);
}

// What servers tell besides results (a deprecation, an index that exists already) is for whoever debugs.
void log_notice(void*, const char* message) {
  spdlog::debug("server: {}", message);
}

void establish(PGconn* connection, SteadyTime deadline, const Interrupt* interrupt) {
  if (PQstatus(connection) == CONNECTION_BAD) throw refused(connection);
  PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
  PQsetNoticeProcessor(connection, log_notice, nullptr);
  for (PostgresPollingStatusType state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
    // The descriptor may change from one step to the next: libpq tries all addresses of a name.
    wait_for(PQsocket(connection), state == PGRES_POLLING_WRITING, deadline, interrupt, "a connection");
    state = PQconnectPoll(connection);
    if (state == PGRES_POLLING_FAILED) throw refused(connection);
  }
  PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
  if (PQsetnonblocking(connection, 1) != 0) throw refused(connection);
}

}  // namespace

Connector::Connector(ConnectOptions options) : options_(std::move(options)) {
  Keywords keywords = parse(options_.conninfo);
  const std::string attrs = keywords["target_session_attrs"];
  accept_default_read_only_ = attrs == "primary";
  accept_read_only_ = !attrs.empty() && attrs != "read-write" && attrs != "primary";
  keywords.erase("target_session_attrs");  // checked by connect_one, which can say what it found
  if (!options_.password.empty()) keywords["password"] = options_.password;
  keywords.try_emplace("tcp_user_timeout", "10000");
  if (!keywords.contains("application_name"))
    keywords["fallback_application_name"] = options_.application_name;

  const auto hosts = split(keywords["host"]);
  const auto addresses = split(keywords["hostaddr"]);
  const auto ports = split(keywords["port"]);
  const std::size_t count = std::max(hosts.size(), addresses.size());
  if (ports.size() > 1 && ports.size() != count)
    throw std::invalid_argument("the connection string names " + std::to_string(ports.size()) +
                                " ports for " + std::to_string(count) + " hosts");
  for (std::size_t i = 0; i < count; ++i) {
    keywords["host"] = hosts.size() > 1 ? hosts.at(i) : hosts[0];
    keywords["hostaddr"] = addresses.size() > 1 ? addresses.at(i) : addresses[0];
    keywords["port"] = ports.size() > 1 ? ports.at(i) : ports[0];
    hosts_.emplace_back(keywords.begin(), keywords.end());
  }
}

std::string Connector::description() const {
  std::string text;
  for (const auto& host : hosts_) {
    const Keywords keywords(host.begin(), host.end());
    const auto value = [&](const char* key) {
      const auto found = keywords.find(key);
      return found == keywords.end() ? std::string() : found->second;
    };
    if (text.empty())
      text = value("user") + "@";
    else
      text += ",";
    text += (value("host").empty() ? value("hostaddr") : value("host")) + ":" + value("port");
    if (&host == &hosts_.back()) text += "/" + value("dbname");
  }
  return text;
}

Connection Connector::connect(SteadyTime deadline, const Interrupt* interrupt) const {
  std::string message;
  auto kind = Error::Kind::connection;
  std::string sqlstate;
  const std::size_t first = preferred_;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const std::size_t host = (first + i) % hosts_.size();
    const auto host_deadline =
        std::min<SteadyTime>(deadline, Clock::system().now() + options_.connect_timeout);
    try {
      Connection connection = connect_one(hosts_[host], host_deadline, interrupt);
      preferred_ = host;
      return connection;
    } catch (const Error& error) {
      if (error.interrupted()) throw;
      if (error.not_writable()) kind = Error::Kind::not_writable;
      if (!error.sqlstate().empty()) sqlstate = error.sqlstate();
      message += (message.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(kind, message, sqlstate);
}

Connection Connector::connect_one(const Parameters& host, SteadyTime deadline,
                                  const Interrupt* interrupt) const {
  std::vector<const char*> keywords;
  std::vector<const char*> values;
  for (const auto& [keyword, value] : host) {
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

  std::unique_ptr<PGconn, Finish> raw(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (!raw) throw Error(Error::Kind::connection, "out of memory");
  establish(raw.get(), deadline, interrupt);
  const auto reported = [&](const char* name) { return PQparameterStatus(raw.get(), name); };
  const char* standby = reported("in_hot_standby");
  const char* read_only = reported("default_transaction_read_only");
  const bool known = standby != nullptr && read_only != nullptr;
  const bool writable = known && std::string_view(standby) == "off" &&
                        (accept_default_read_only_ || std::string_view(read_only) == "off");
  Connection connection(raw.release(), options_.statement_timeout, interrupt);
  if (accept_read_only_ || writable) return connection;
  // A pooler may not pass the two parameters on: then the server is asked.
  if (!known &&
      connection
          .execute(
              "SELECT NOT pg_is_in_recovery() AND ($1 OR current_setting('transaction_read_only') = 'off')",
              Params::of(accept_default_read_only_), deadline)
          .one()
          .get<bool>(0))
    return connection;
  throw Error(Error::Kind::not_writable,
              connection.description() + " takes no writes (a standby, or read-only)");
}

}  // namespace ff::pg
