#pragma once

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ff::pg {

/// libpq's keywords and their values (PostgreSQL documentation, "Parameter Key Words").
using Keywords = std::map<std::string, std::string>;

/// What a connection string means, by libpq's own reading of it: what the string says goes over the service
/// that it names, that over the environment, and that over libpq's defaults.
struct Conninfo {
  /// What the string itself says. The rest is left to libpq, which alone knows what goes over what.
  Keywords given;
  /// Everything that holds; no password. A target_session_attrs of `any` is left out where nobody has set it.
  Keywords effective;

  /// The effective value, or empty.
  std::string value(const std::string& keyword) const;
};

/// One of the environment.
struct Variable {
  std::string name;
  std::string value;
};

/// What libpq takes for `keyword` from the environment, where neither the string nor a service says it.
std::optional<Variable> variable_behind(const Keywords& given, const std::string& keyword);

/// It is not the string that cannot be used, but what a variable of libpq's adds to it.
class VariableRefused : public std::invalid_argument {
 public:
  /// `why` holds no secret; neither does what() nor value().
  VariableRefused(const Variable& variable, const std::string& why);
  const std::string& name() const { return name_; }
  /// Empty where it may hold a password.
  const std::string& value() const { return value_; }
  const std::string& why() const { return why_; }

 private:
  std::string name_;
  std::string value_;
  std::string why_;
};

/// Connects to nothing. Throws std::invalid_argument, without any
/// secret in its message, for what libpq cannot parse or knows that it can never use: an unknown sslmode, a
/// service that is not there, a number of ports that does not fit the hosts. So is a URL with a bare "@" or "/"
/// where only an encoded one can be meant. A parameter of a URL that libpq does not know is named where it cannot be part
/// of a password. VariableRefused, where it comes from the environment.
Conninfo parse_conninfo(const std::string& text);

/// A file that libpq reads anew for each connection.
struct TlsFile {
  std::string keyword;
  std::string path;
};

/// The files for TLS that have been named, be it by the string, its service or the environment: libpq's own defaults need
/// not be there. None where no connection can have TLS.
std::vector<TlsFile> tls_files(const Conninfo& conninfo);
/// Whether libpq refuses a file as `sslkey` because of who else may read it: of root's the group may. False where there is none.
bool is_open_to_others(const std::string& key);
/// Whether a connection without TLS is none.
bool wants_tls(const Conninfo& conninfo);

/// The servers to try, in their order: what libpq is told about each. One entry at least.
std::vector<Keywords> servers_of(const Conninfo& conninfo);

}  // namespace ff::pg
