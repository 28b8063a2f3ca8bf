#include "histories/verdict.hpp"

namespace ff::test {

std::string_view name(Fault fault) {
  switch (fault) {
    case Fault::stuck:
      return "stuck";
    case Fault::ended_healthy:
      return "ended healthy";
    case Fault::robbed:
      return "robbed";
    case Fault::ended_twice:
      return "ended twice";
    case Fault::untold:
      return "end untold";
    case Fault::unfenced:
      return "unfenced";
    case Fault::unnoticed:
      return "lapse unnoticed";
    case Fault::miscounted:
      return "miscounted";
    case Fault::refused:
      return "claim refused";
    case Fault::meddled:
      return "meddled";
  }
  return "";
}

std::string to_text(const Verdict& verdict) {
  return std::string(name(verdict.fault)) + ": " + verdict.who + ": " + verdict.what;
}

std::map<Fault, int> tally(const std::vector<Verdict>& verdicts) {
  std::map<Fault, int> counts;
  for (const Verdict& verdict : verdicts) ++counts[verdict.fault];
  return counts;
}

}  // namespace ff::test
