#pragma once

#include <string>
#include <string_view>

#include "arguments.hpp"
#include "config/config.hpp"

/// What is made from the tables of commands, options and keys, and so always says what holds. The texts are the same
/// for the same version, wherever and whenever they are made.
namespace ff::daemon {

/// ff-reconcilerd(8): commands, options, exit codes, signals, environment, files; in the `man` macros of roff.
std::string daemon_page(const std::vector<Command>& commands);

/// ff-reconciler.yaml(5): every key with what is allowed and its default.
std::string configuration_page(const std::vector<config::ReconcilerDecl>& decls);

/// A script for bash: commands, their options and words, names of reconcilers where they are wanted.
std::string bash_completion(const std::vector<Command>& commands,
                            const std::vector<config::ReconcilerDecl>& decls);

/// A text as roff shows it: nothing in it is taken for a request or an escape.
std::string roff(std::string_view text);

}  // namespace ff::daemon
