DELETE FROM ff_quota_admitted g WHERE {mine:g} AND g.expires_at_ms < $4 - 60000;

UPDATE ff_quota_policy q SET active_concurrency = 1, updated_at_ms = $3 WHERE {mine:q};
