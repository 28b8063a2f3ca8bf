-- Flow edges, fan-in groups, and the groups whose remaining siblings are to be cancelled.

CREATE TABLE IF NOT EXISTS ff_edge (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  edge_id uuid NOT NULL,
  upstream_eid uuid NOT NULL,
  downstream_eid uuid NOT NULL,
  policy jsonb NOT NULL,
  policy_version integer NOT NULL DEFAULT 0,
  PRIMARY KEY (partition_key, flow_id, edge_id)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_edge_downstream_idx ON ff_edge (partition_key, flow_id, downstream_eid)
  INCLUDE (upstream_eid, policy_version);
CREATE INDEX IF NOT EXISTS ff_edge_upstream_idx ON ff_edge (partition_key, flow_id, upstream_eid);

CREATE TABLE IF NOT EXISTS ff_edge_group (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  downstream_eid uuid NOT NULL,
  policy jsonb NOT NULL,
  k_target integer NOT NULL DEFAULT 0,
  success_count integer NOT NULL DEFAULT 0,
  fail_count integer NOT NULL DEFAULT 0,
  skip_count integer NOT NULL DEFAULT 0,
  running_count integer NOT NULL DEFAULT 0,
  cancel_siblings_pending_flag boolean NOT NULL DEFAULT false,
  cancel_siblings_pending_members text[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (partition_key, flow_id, downstream_eid)
) PARTITION BY HASH (partition_key);

CREATE TABLE IF NOT EXISTS ff_pending_cancel_groups (
  partition_key smallint NOT NULL,
  flow_id uuid NOT NULL,
  downstream_eid uuid NOT NULL,
  enqueued_at_ms bigint NOT NULL,
  PRIMARY KEY (partition_key, flow_id, downstream_eid)
) PARTITION BY HASH (partition_key);

CREATE INDEX IF NOT EXISTS ff_pending_cancel_groups_enqueued_idx ON ff_pending_cancel_groups
  (partition_key, enqueued_at_ms);

CALL ff_reconciler_create_children('ff_edge');
CALL ff_reconciler_create_children('ff_edge_group');
CALL ff_reconciler_create_children('ff_pending_cancel_groups');
