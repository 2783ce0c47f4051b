-- Ends every staged error of a batch as a failed job: its outcome is the error itself.
WITH bad AS MATERIALIZED (
    SELECT uuidv7() AS id, line, custom_id, code, error, clock_timestamp() AS ended
    FROM staged_errors
), done AS (
    INSERT INTO jobs_done (
        id, finished_on, tenant_id, flow_id, batch_id, line, custom_id, model, endpoint, lane, state,
        fence, attempts, error_code, created_at, ended_at, finished_at
    )
    SELECT
        bad.id, (bad.ended AT TIME ZONE 'UTC')::date, batches.tenant_id, batches.id, batches.id, bad.line,
        bad.custom_id, '', batches.endpoint, :lane, 'failed', 0, 0, bad.code, bad.ended, bad.ended, bad.ended
    FROM bad, batches
    WHERE batches.id = :batch_id
), progress AS (
    INSERT INTO batch_progress (
        tenant_id, batch_id, succeeded, unsuccessful, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens
    )
    SELECT batches.tenant_id, batches.id, 0, counted.lines, 0, 0, 0, 0
    FROM batches, (SELECT count(*) AS lines FROM bad) AS counted
    WHERE batches.id = :batch_id AND counted.lines > 0
)
INSERT INTO outcomes (job_id, finished_on, tenant_id, body)
SELECT bad.id, (bad.ended AT TIME ZONE 'UTC')::date, batches.tenant_id, convert_to(bad.error, 'UTF8')
FROM bad, batches
WHERE batches.id = :batch_id
