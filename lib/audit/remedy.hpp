#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "audit/check.hpp"

namespace ff::audit {

/// A check's remedy with the value of each column that it mentions. What stands between single quotes is written as a literal of
/// SQL; of an execution, the only one that stands in a command, that is as well a word of the shell.
std::string filled_in(const std::string& remedy,
                      const std::function<std::string(std::string_view column)>& value);

/// The INSERT of the event that an ended execution lacks, with this word ({word_of_end:core}); `where`: the row in ff_exec_core.
/// Without a word, because nothing tells it, the server refuses the statement.
std::string insert_event_of_end(std::string_view word, std::string_view where);

/// The check of this name, for whoever finds its problem in another way. Throws std::out_of_range where there is none.
const Check& check_named(std::string_view name);

}  // namespace ff::audit
