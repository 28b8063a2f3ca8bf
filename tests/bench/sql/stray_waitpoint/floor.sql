-- The key comes last of what is found by it.
UPDATE ff_suspension_current s
   SET member_map = (s.member_map - ''::text)
         || jsonb_build_object(s.condition->'Single'->>'waitpoint_key', s.member_map->'')
  FROM ff_waitpoint_pending w
 WHERE {same_execution:w, s} AND {mine:w} AND {mine:s} AND w.waitpoint_key = '' AND w.activated_at_ms = s.suspended_at_ms;

UPDATE ff_waitpoint_pending w
   SET waitpoint_key = s.condition->'Single'->>'waitpoint_key',
       required_signal_names = w.required_signal_names || ARRAY[s.condition->'Single'->'matcher'->>'ByName']
  FROM ff_suspension_current s
 WHERE {same_execution:w, s} AND {mine:w} AND {mine:s} AND w.waitpoint_key = '' AND w.activated_at_ms = s.suspended_at_ms;

DELETE FROM ff_waitpoint_pending w
 WHERE {mine:w} AND w.activated_at_ms <= $4
   AND NOT EXISTS (SELECT FROM ff_suspension_current s
                    WHERE {same_execution:s, w} AND {mine:s} AND s.suspended_at_ms = w.activated_at_ms);
