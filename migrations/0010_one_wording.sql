-- Two expressions worded as FlowFabric words them, so that the two catalogues can be compared word by word.

ALTER TABLE ff_completion_event
  ALTER COLUMN committed_at_ms SET DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

ALTER TABLE ff_partition_config
  DROP CONSTRAINT IF EXISTS ff_partition_config_singleton_lock_check,
  ADD CONSTRAINT ff_partition_config_singleton_lock_check CHECK (singleton_lock = true);
