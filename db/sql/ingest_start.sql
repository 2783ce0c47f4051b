-- Opens a validated batch for claims. No row: the validation was lost, or the batch was cancelled.
UPDATE batches
SET status = 'in_progress',
    in_progress_at = clock_timestamp(),
    lease_until = NULL,
    total = (SELECT count(*) FROM staged_lines) + (SELECT count(*) FROM staged_errors),
    model = (SELECT min(model) FROM staged_lines HAVING count(DISTINCT model) = 1),
    errors = (
        SELECT jsonb_agg(listed.error::jsonb ORDER BY listed.line)
        FROM (SELECT line, error FROM staged_errors ORDER BY line LIMIT :listed_errors) AS listed
    ),
    errors_total = (SELECT count(*) FROM staged_errors)
WHERE id = :batch_id AND fence = :fence AND status = 'validating'
RETURNING id
