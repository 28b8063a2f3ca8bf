// What random histories forgive: each entry is shown to be FlowFabric's own doing by a history without any daemon.
#include <catch2/catch.hpp>

#include "histories/trial.hpp"

using namespace ff;
using namespace ff::test;

TEST_CASE("what histories forgive happens with no daemon running") {
  for (const Exclusion& exclusion : exclusions()) {
    const StageOptions nobody{.rescue = Rescue::nobody, .forgive = false};
    const Trial trial = replay(nobody, from_script(exclusion.shortest));
    INFO(exclusion.name << "\n" << report(trial));
    CHECK(tally(trial.verdicts)[exclusion.shown] > 0);
  }
}
