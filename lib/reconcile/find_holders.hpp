#pragma once

#include "reconcile/job.hpp"
#include "reconcile/report.hpp"

namespace ff::reconcile {

/// At the end of a tick's work: looks who holds the rows that tick after tick others hold (a few of them, every few
/// seconds), and tells it when that is new. Fails nothing: what cannot be seen, because of privileges or time, is left out.
void find_holders(Job& job, pg::Connection& connection);

/// When the tick is over: forgets the rows that are held no more, and tells of those that it had told of; adds the others
/// to the report.
void end_held_rows(Job& job, TickReport& report);

}  // namespace ff::reconcile
