#pragma once

#include <string>
#include <vector>

#include "page/attention.hpp"
#include "page/model.hpp"

/// The parts of the page, from top to bottom; each is a complete piece of markup.
namespace ff::daemon::page {

/// Of the quarantined rows so many are listed, whatever the reconciler; the others are counted.
constexpr std::size_t kMostQuarantinedShown = 100;
/// The heat map has at most so many cells; of more partitions several share one.
constexpr std::size_t kMostCells = 1024;

std::string banner(const Model& model, const std::vector<Attention>& attention);
std::string attention_list(const std::vector<Attention>& attention);
std::string reconciler_table(const Model& model);
std::string partition_map(const Model& model);
std::string quarantine_list(const Model& model);  ///< empty where no row is in quarantine
std::string event_list(const Model& model);
std::string connections(const Model& model);
std::string configuration(const Model& model);

}  // namespace ff::daemon::page
