#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ff {
namespace {

/// Levenshtein's distance, where two neighbours that have changed places count as one mistake.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  std::vector<std::size_t> above = row;  // and that above it
  std::vector<std::size_t> before;
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = above[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({changed, row[j] + 1, above[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
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

}  // namespace ff
