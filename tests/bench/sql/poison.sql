-- Raises for executions in a lane of their own; made before any figure is taken, so that all ways have it.
CREATE FUNCTION ff_bench_poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'this row cannot be changed'; END $$;

CREATE TRIGGER ff_bench_poison BEFORE UPDATE ON ff_exec_core
  FOR EACH ROW WHEN (OLD.lane_id = 'poison') EXECUTE FUNCTION ff_bench_poison();
