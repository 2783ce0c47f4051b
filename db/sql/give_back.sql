-- Return leased jobs to the queue under a new fence and refund what the claim charged. `delays_ms`
-- is how long the next attempt waits (0: at once); `blames` tells whether this one counts.
-- Returns the ids that went back; the others had lost their lease or are asked to stop.
WITH report AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST(:job_ids AS uuid[]), CAST(:fences AS integer[]), CAST(:delays_ms AS integer[]),
        CAST(:blames AS boolean[])
    ) AS report(job_id, fence, delay_ms, blame)
), queued AS (
    UPDATE jobs AS j SET
        state = 'queued', boot_id = NULL, claimed_at = NULL, fence = j.fence + 1,
        attempts = j.attempts + CAST(r.blame AS integer),
        not_before = CASE WHEN r.delay_ms > 0
            THEN clock_timestamp() + r.delay_ms * interval '1 ms' END
    FROM report AS r
    WHERE j.id = r.job_id AND j.fence = r.fence AND j.state = 'running'
    RETURNING j.*
), refunded AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost)
    SELECT id, fence - 1, 'settle', model, lane, tenant_id, flow_id,
           -(:input_cost * input_tokens + :output_cost * output_tokens)
    FROM queued
)
SELECT id FROM queued
