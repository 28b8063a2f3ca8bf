#include "pg/sqlstate.hpp"

#include <algorithm>
#include <array>

namespace ff::pg {
namespace {

struct Condition {
  std::string_view sqlstate;
  std::string_view name;
};

// In the order of the codes.
constexpr std::array kConditions{
    Condition{"08000", "connection_exception"},
    Condition{"08003", "connection_does_not_exist"},
    Condition{"08006", "connection_failure"},
    Condition{"08P01", "protocol_violation"},
    Condition{"0A000", "feature_not_supported"},
    Condition{"21000", "cardinality_violation"},
    Condition{"22001", "string_data_right_truncation"},
    Condition{"22003", "numeric_value_out_of_range"},
    Condition{"22007", "invalid_datetime_format"},
    Condition{"22008", "datetime_field_overflow"},
    Condition{"22012", "division_by_zero"},
    Condition{"22023", "invalid_parameter_value"},
    Condition{"22P02", "invalid_text_representation"},
    Condition{"22P05", "untranslatable_character"},
    Condition{"23502", "not_null_violation"},
    Condition{"23503", "foreign_key_violation"},
    Condition{"23505", "unique_violation"},
    Condition{"23514", "check_violation"},
    Condition{"23P01", "exclusion_violation"},
    Condition{"25001", "active_sql_transaction"},
    Condition{"25006", "read_only_sql_transaction"},
    Condition{"25P02", "in_failed_sql_transaction"},
    Condition{"25P03", "idle_in_transaction_session_timeout"},
    Condition{"26000", "invalid_sql_statement_name"},
    Condition{"28000", "invalid_authorization_specification"},
    Condition{"28P01", "invalid_password"},
    Condition{"3D000", "invalid_catalog_name"},
    Condition{"3F000", "invalid_schema_name"},
    Condition{"40001", "serialization_failure"},
    Condition{"40P01", "deadlock_detected"},
    Condition{"42501", "insufficient_privilege"},
    Condition{"42601", "syntax_error"},
    Condition{"42703", "undefined_column"},
    Condition{"42704", "undefined_object"},
    Condition{"42804", "datatype_mismatch"},
    Condition{"42883", "undefined_function"},
    Condition{"42P01", "undefined_table"},
    Condition{"42P05", "duplicate_prepared_statement"},
    Condition{"53100", "disk_full"},
    Condition{"53200", "out_of_memory"},
    Condition{"53300", "too_many_connections"},
    Condition{"54000", "program_limit_exceeded"},
    Condition{"54001", "statement_too_complex"},
    Condition{"55000", "object_not_in_prerequisite_state"},
    Condition{"55006", "object_in_use"},
    Condition{"55P03", "lock_not_available"},
    Condition{"57014", "query_canceled"},
    Condition{"57P01", "admin_shutdown"},
    Condition{"57P02", "crash_shutdown"},
    Condition{"57P03", "cannot_connect_now"},
    Condition{"57P04", "database_dropped"},
    Condition{"57P05", "idle_session_timeout"},
    Condition{"58030", "io_error"},
    Condition{"P0001", "raise_exception"},
    Condition{"XX000", "internal_error"},
    Condition{"XX001", "data_corrupted"},
    Condition{"XX002", "index_corrupted"},
};
static_assert(std::ranges::is_sorted(kConditions, {}, &Condition::sqlstate));

}  // namespace

std::string_view condition_name(std::string_view sqlstate) {
  const auto found = std::ranges::lower_bound(kConditions, sqlstate, {}, &Condition::sqlstate);
  return found != kConditions.end() && found->sqlstate == sqlstate ? found->name : std::string_view{};
}

std::string named_sqlstate(const std::string& sqlstate) {
  const std::string_view name = condition_name(sqlstate);
  return name.empty() ? sqlstate : sqlstate + ' ' + std::string(name);
}

}  // namespace ff::pg
