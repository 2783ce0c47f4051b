-- Takes the oldest batch that nobody validates, for :lease_seconds, and raises its fence.
-- Whoever held it before can write nothing from now on. Returns what ingest needs, or no row.
UPDATE batches
SET fence = batches.fence + 1,
    lease_until = clock_timestamp() + make_interval(secs => :lease_seconds)
FROM files
WHERE batches.id = (
        SELECT id FROM batches
        WHERE status = 'validating' AND (lease_until IS NULL OR lease_until < clock_timestamp())
        ORDER BY created_at
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    )
    AND files.id = batches.input_file_id
RETURNING batches.id, batches.tenant_id, batches.fence, batches.endpoint, batches.on_invalid_line,
    batches.completion_window,    files.object_key AS input_key
