DELETE FROM ff_waitpoint_pending w WHERE {mine:w} AND w.expires_at_ms <= $4 AND w.state = 'pending';
