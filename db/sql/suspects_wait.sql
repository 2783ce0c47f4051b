-- For how many seconds the oldest group of suspects of a model has waited; no row when none waits.
SELECT CAST(extract(epoch FROM clock_timestamp() - suspected_at) AS double precision)
FROM jobs
WHERE model = :model AND suspects IS NOT NULL AND state = 'queued' AND not_before IS NULL
ORDER BY suspected_at LIMIT 1
