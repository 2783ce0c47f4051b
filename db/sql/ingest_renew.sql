-- Prolongs a validation; no row when it was lost or the batch was cancelled.
UPDATE batches
SET lease_until = clock_timestamp() + make_interval(secs => :lease_seconds)
WHERE id = :batch_id AND fence = :fence AND status = 'validating'
RETURNING id
