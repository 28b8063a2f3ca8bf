#include "support/metrics_text.hpp"

#include <sstream>

namespace ff::test {

void each_sample(const std::string& metrics, const std::string& name,
                 const std::function<void(const std::string& labels, double value)>& visit) {
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || (line[name.size()] != '{' && line[name.size()] != ' ')) continue;
    const std::size_t end = line.rfind(' ');
    visit(line.substr(name.size(), end - name.size()), std::stod(line.substr(end)));
  }
}

double metric_sum(const std::string& metrics, const std::string& name, const std::string& labels) {
  double sum = 0;
  each_sample(metrics, name, [&](const std::string& its, double value) {
    if (its.find(labels) != std::string::npos) sum += value;
  });
  return sum;
}

}  // namespace ff::test
