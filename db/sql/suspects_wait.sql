-- For how many seconds the oldest group of suspects of a model has waited; no row when none waits that
-- `claim_suspects` would give out.
SELECT CAST(extract(epoch FROM clock_timestamp() - j.suspected_at) AS double precision)
FROM jobs AS j LEFT JOIN batches AS b ON b.id = j.batch_id
WHERE j.model = :model AND j.suspects IS NOT NULL AND j.state = 'queued' AND j.not_before IS NULL
  AND j.deadline > clock_timestamp() AND b.status IS DISTINCT FROM 'cancelling'
ORDER BY j.suspected_at LIMIT 1
