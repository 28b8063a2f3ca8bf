#include "base/log_fields.hpp"

namespace ff {
namespace {

thread_local const LogFields* current_fields = nullptr;

}  // namespace

LogFields::LogFields(std::string_view reconciler, Counts counts, Texts texts)
    : reconciler_(reconciler), counts_(std::move(counts)), texts_(std::move(texts)), outer_(current_fields) {
  current_fields = this;
}

LogFields::~LogFields() {
  current_fields = outer_;
}

const LogFields* LogFields::current() {
  return current_fields;
}

}  // namespace ff
