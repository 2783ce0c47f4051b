-- Return leased jobs to the queue under a new fence and refund what the claim charged. `delays_ms`
-- is how long the next attempt waits (0: at once); `blames` tells whether this one counts; `groups`
-- names the suspects that a job belongs to from now on. One that was a suspect already stays so,
-- unless the attempt failed by itself: then its engine lived.
-- Returns the ids that went back; the others had lost their lease or are asked to stop.
WITH report AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST(:job_ids AS uuid[]), CAST(:fences AS integer[]), CAST(:delays_ms AS integer[]),
        CAST(:blames AS boolean[]), CAST(:groups AS uuid[])
    ) AS report(job_id, fence, delay_ms, blame, suspects)
), queued AS (
    UPDATE jobs AS j SET
        state = 'queued', boot_id = NULL, claimed_at = NULL, fence = j.fence + 1,
        attempts = j.attempts + CAST(r.blame AS integer),
        not_before = CASE WHEN r.delay_ms > 0
            THEN clock_timestamp() + r.delay_ms * interval '1 ms' END,
        suspects = CASE WHEN NOT r.blame THEN coalesce(r.suspects, j.suspects) END,
        suspected_at = CASE
            WHEN r.suspects IS NOT NULL AND NOT r.blame THEN clock_timestamp()
            WHEN NOT r.blame THEN j.suspected_at
        END
    FROM report AS r
    WHERE j.id = r.job_id AND j.fence = r.fence AND j.state = 'running'
    RETURNING j.*
), refunded AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    SELECT id, fence - 1, 'settle', model, lane, tenant_id, flow_id,
           -(:input_cost * input_tokens + :output_cost * output_tokens),
           ARRAY[CAST(rank AS bigint), bucket, ord]
    FROM queued
)
SELECT id FROM queued
