-- Ends a batch whose file was refused, and lists the file of all its errors.
-- No row: the validation was lost, or the batch was cancelled.
WITH listed AS (
    SELECT line, error FROM staged_errors ORDER BY line LIMIT :listed_errors
), stored AS (
    INSERT INTO files (tenant_id, purpose, filename, bytes, object_key, expires_at)
    SELECT
        tenant_id, 'batch_output', 'batch_' || replace(id::text, '-', '') || '_errors.jsonl', :bytes,
        :object_key, clock_timestamp() + make_interval(secs => coalesce(output_expires_seconds, 30 * 86400))
    FROM batches
    WHERE id = :batch_id
    RETURNING id
)
UPDATE batches
SET status = 'failed',
    failed_at = clock_timestamp(),
    lease_until = NULL,
    errors = (SELECT jsonb_agg(error::jsonb ORDER BY line) FROM listed),
    errors_total = (SELECT count(*) FROM staged_errors),
    errors_file_id = stored.id
FROM stored
WHERE batches.id = :batch_id AND batches.fence = :fence AND batches.status = 'validating'
RETURNING batches.id
