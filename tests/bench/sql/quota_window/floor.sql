DELETE FROM ff_quota_window w WHERE {mine:w} AND w.admitted_at_ms <= $4;
