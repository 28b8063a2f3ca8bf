#pragma once

#include <vector>

#include "support/stages.hpp"

namespace ff::test {

/// Those of execution_retention and outbox_retention, which delete what is over.
std::vector<Stage> stages_of_retention();

}  // namespace ff::test
