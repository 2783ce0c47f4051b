-- Jobs asked to stop whose worker is gone: nobody will answer, so they end as asked.
SELECT j.id FROM jobs AS j LEFT JOIN replicas AS r ON r.boot_id = j.boot_id
WHERE j.boot_id IS NOT NULL AND j.state = 'cancelling' AND j.ending = :ending
  AND (r.boot_id IS NULL OR r.stopped_at IS NOT NULL)
LIMIT :chunk FOR UPDATE OF j SKIP LOCKED
