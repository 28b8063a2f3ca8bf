#pragma once

#include "support/stages.hpp"

/// What several stages have in common: rows of an execution that bears the id of its seed, or of a flow that does.
namespace ff::test {

inline const Hold kCoreOfId{"ff_exec_core", "execution_id::text = $1"};
inline const Hold kAttemptOfId{"ff_attempt", "execution_id::text = $1"};
inline const Hold kOtherCore{"ff_exec_core", "flow_id::text = $1 AND execution_id::text <> $1"};
inline const Hold kGroup{"ff_edge_group", "flow_id::text = $1"};

inline const Columns kInFlow = {{"flow_id", "id"}};

}  // namespace ff::test
