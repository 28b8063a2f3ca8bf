#pragma once

#include <string>
#include <vector>

#include "page/model.hpp"

namespace ff::daemon::page {

/// Something that somebody should look at.
struct Attention {
  Severity severity = Severity::warning;
  std::string what;                     ///< one sentence, not escaped
  std::string why = {};                 ///< what is known of the reason, or nothing
  std::vector<std::string> paste = {};  ///< commands, best first
};

/// What needs attention, problems first; nothing: all is well. To add a kind, write a function beside the others
/// and its line in the list `kLooks`.
std::vector<Attention> needs_attention(const Model& model);

/// The commands that go with a row: what explains it, what tries it at once. Nothing where it has no execution's id.
std::vector<std::string> commands_for(std::string_view reconciler, const reconcile::QuarantinedRow& row);
/// A command with the configuration that the daemon has, which may say which database, filter and grace.
std::string with_config(const Model& model, std::string command);

/// A message with its SQLSTATE, which most have in them.
std::string failure_text(std::string_view sqlstate, std::string_view message);

}  // namespace ff::daemon::page
