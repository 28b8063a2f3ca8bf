#pragma once

#include "explain/finding.hpp"

/// The findings about the execution's own state. Each adds to what was found; all need facts.core.
namespace ff::explain {

/// The inspection of a reconciler that would move it by now; null: there is none.
const Inspection* due_inspection(const Facts& facts, std::string_view reconciler);

void add_states(const Facts& facts, std::vector<Finding>& found);
/// Whatever `audit` finds in its own rows, as audit says it. True: something that is in its way.
bool add_faults(const Facts& facts, std::vector<Finding>& found);
/// Where others are to end first, but their edges are only staged or no fan-in is there that would count their ends, as audit
/// says it. True: that is so.
bool add_uncounted_edge(const Facts& facts, std::vector<Finding>& found);
/// Of one that is active. `at_fault`: add_faults has found something.
void add_active(const Facts& facts, bool at_fault, std::vector<Finding>& found);
/// Of one that waits for others of its flow.
void add_waiting(const Facts& facts, std::vector<Finding>& found);
/// Of one that is suspended, and of its waitpoints.
void add_suspended(const Facts& facts, std::vector<Finding>& found);
void add_waitpoints(const Facts& facts, std::vector<Finding>& found);
/// Of one whose end is to be passed on, or which is to end because others do not need it.
void add_flow(const Facts& facts, std::vector<Finding>& found);

}  // namespace ff::explain
