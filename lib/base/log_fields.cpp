#include "base/log_fields.hpp"

namespace ff {
namespace {

thread_local const LogFields* current_fields = nullptr;

}  // namespace

LogFields::LogFields(std::string_view reconciler, Numbers numbers, Texts texts)
    : reconciler_(reconciler),
      numbers_(std::move(numbers)),
      texts_(std::move(texts)),
      outer_(current_fields) {
  current_fields = this;
}

LogFields::~LogFields() {
  current_fields = outer_;
}

const LogFields* LogFields::current() {
  return current_fields;
}

}  // namespace ff
