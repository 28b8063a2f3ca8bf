#include "pg/error.hpp"

#include <algorithm>
#include <array>

namespace ff::pg {
namespace {

using namespace std::string_view_literals;

// The classes that a reconciler meets in practice (PostgreSQL documentation, appendix A); all others count as
// "other", so that the set of label values is known from the start.
constexpr std::array kCountedClasses{"21"sv, "22"sv, "23"sv, "25"sv, "26"sv, "28"sv, "3D"sv, "40"sv,
                                     "42"sv, "53"sv, "54"sv, "55"sv, "57"sv, "58"sv, "P0"sv, "XX"sv};

std::string_view class_of(std::string_view sqlstate) {
  return sqlstate.substr(0, 2);
}

}  // namespace

Error::Error(Kind kind, const std::string& message, std::string sqlstate, std::string query, bool has_context)
    : std::runtime_error(message),
      kind_(kind),
      sqlstate_(std::move(sqlstate)),
      query_(std::move(query)),
      has_context_(has_context) {}

// By the session's end, not by the code: a trigger may raise any code, and the session goes on.
bool Error::connection_lost() const {
  return kind_ == Kind::connection || kind_ == Kind::unknown_commit;
}

bool Error::retryable() const {
  return sqlstate_ == "40001" || sqlstate_ == "40P01" || statement_name_lost();
}

bool Error::canceled() const {
  return sqlstate_ == "57014";
}

bool Error::table_locked() const {
  return sqlstate_ == "55P03";
}

bool Error::statement_name_lost() const {
  return !has_context_ && (sqlstate_ == "26000" || sqlstate_ == "42P05");
}

bool Error::not_writable() const {
  return kind_ == Kind::not_writable || sqlstate_ == "25006";
}

bool Error::timed_out() const {
  return kind_ == Kind::timeout || canceled() || table_locked();
}

// A session that goes on was let in, whatever a statement on it may not do.
bool Error::authentication() const {
  return kind_ != Kind::server &&
         (class_of(sqlstate_) == "28" || sqlstate_ == "3D000" || sqlstate_ == "42501");
}

bool Error::too_many_connections() const {
  return sqlstate_ == "53300";
}

bool Error::lacks_resources() const {
  return class_of(sqlstate_) == "53" && sqlstate_ != "53400";
}

bool Error::disk_full() const {
  return kind_ == Kind::server && sqlstate_ == "53100" && !has_context_;
}

bool Error::lacks_privilege() const {
  return sqlstate_ == "42501";
}

bool Error::schema_mismatch() const {
  const bool is_of_class = class_of(sqlstate_) == "42" && !lacks_privilege() && !statement_name_lost();
  return kind_ == Kind::server && !has_context_ && (is_of_class || sqlstate_ == "0A000");
}

bool Error::may_be_one_row() const {
  return kind_ == Kind::server && !sqlstate_.empty() && !table_locked();
}

bool Error::is_of_the_data() const {
  if (kind_ != Kind::server) return false;
  constexpr std::array kOfTheData{"21"sv, "22"sv, "23"sv, "2F"sv, "38"sv,
                                  "39"sv, "44"sv, "54"sv, "P0"sv, "XX"sv};
  const auto cls = class_of(sqlstate_);
  // A limit that is met only at COMMIT, such as a full queue of notifications, may be everybody's.
  if (cls == "54" && query_ == "COMMIT") return false;
  // 57014: the statement took too long, which fewer rows may not; a custom SQLSTATE is a trigger's own.
  return std::find(kOfTheData.begin(), kOfTheData.end(), cls) != kOfTheData.end() || canceled() ||
         (!cls.empty() && cls[0] >= 'I' && cls != "XX");
}

std::string_view Error::error_class() const {
  if (canceled() || table_locked()) return "timeout";
  const auto* known = std::find(kCountedClasses.begin(), kCountedClasses.end(), class_of(sqlstate_));
  if (known != kCountedClasses.end()) return *known;
  if (kind_ == Kind::server) return "other";
  if (kind_ == Kind::timeout) return "timeout";
  return kind_ == Kind::interrupted || kind_ == Kind::internal ? "internal" : "connection";
}

const std::vector<std::string_view>& error_classes() {
  static const std::vector<std::string_view> classes = [] {
    std::vector<std::string_view> all(kCountedClasses.begin(), kCountedClasses.end());
    all.insert(all.end(), {"other", "timeout", "connection", "internal"});
    return all;
  }();
  return classes;
}

}  // namespace ff::pg
