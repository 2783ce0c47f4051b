-- End jobs that no worker will answer for ('expired' or 'cancelled'), picked and locked just before
-- in the same transaction. Returns how many ended.
WITH ended AS (
    DELETE FROM jobs WHERE id = ANY(CAST(:job_ids AS uuid[])) AND state = ANY(CAST(:sources AS text[]))
    RETURNING *
), stored AS (
    INSERT INTO jobs_done (
        id, finished_on, tenant_id, flow_id, batch_id, line, custom_id, model, endpoint, lane, state, fence,
        attempts, boot_id, error_code, created_at, claimed_at, finished_at
    )
    SELECT id, (clock_timestamp() AT TIME ZONE 'UTC')::date, tenant_id, flow_id, batch_id, line, custom_id,
           model, endpoint, lane, :state, fence, attempts, boot_id, CAST(:error_code AS text), created_at,
           claimed_at, clock_timestamp()
    FROM ended
), refunded AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost)
    SELECT id, fence, 'settle', model, lane, tenant_id, flow_id,
           -(:input_cost * input_tokens + :output_cost * output_tokens)
    FROM ended WHERE boot_id IS NOT NULL
), counted AS (
    INSERT INTO batch_progress (
        tenant_id, batch_id, succeeded, unsuccessful, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens
    )
    SELECT tenant_id, batch_id, 0, count(*), 0, 0, 0, 0
    FROM ended WHERE batch_id IS NOT NULL GROUP BY tenant_id, batch_id
)
SELECT count(*) FROM ended
