#pragma once

namespace ff::daemon {

/// The form of a line of the log.
enum class LastForm { program, text, journal, json };  // program: before there is a log

/// Of what end_with_last_words() writes from now on.
void set_form_of_last_words(LastForm form) noexcept;

/// For std::set_terminate: what was thrown and caught by nobody is said on stderr in one line, and the exit code is that of an
/// internal error. Needs no memory, of which there may be none left.
[[noreturn]] void end_with_last_words() noexcept;

}  // namespace ff::daemon
