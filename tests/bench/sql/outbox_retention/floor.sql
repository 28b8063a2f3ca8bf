DELETE FROM ff_lease_event l WHERE {mine:l} AND l.occurred_at_ms <= $4;

DELETE FROM ff_completion_event e
 WHERE {mine:e} AND e.dispatched_at_ms IS NOT NULL AND e.committed_at_ms <= $4;

DELETE FROM ff_signal_event s WHERE {mine:s} AND s.delivered_at_ms <= $4;

DELETE FROM ff_operator_event o WHERE {mine:o} AND o.occurred_at_ms <= $4;
