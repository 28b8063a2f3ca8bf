#include "config/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace ff::config {
namespace {

/// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view misspelled, const std::vector<std::string>& words) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, misspelled.size() / 3) + 1;
  for (const std::string& word : words) {
    // Also keeps a very long key from costing time.
    if (misspelled.size() > word.size() + least || word.size() > misspelled.size() + least) continue;
    const std::size_t d = distance(misspelled, word);
    if (d < least && d < word.size()) {
      least = d;
      best = word;
    }
  }
  return best;
}

}  // namespace ff::config
