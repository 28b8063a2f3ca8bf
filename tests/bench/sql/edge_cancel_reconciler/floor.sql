UPDATE ff_edge_group g
   SET cancel_siblings_pending_flag = false, cancel_siblings_pending_members = '{}'
  FROM ff_pending_cancel_groups p
 WHERE g.partition_key = p.partition_key AND g.flow_id = p.flow_id AND g.downstream_eid = p.downstream_eid
   AND g.cancel_siblings_pending_flag AND {mine:g} AND {mine:p} AND p.enqueued_at_ms <= $4;

DELETE FROM ff_pending_cancel_groups p WHERE {mine:p} AND p.enqueued_at_ms <= $4;
