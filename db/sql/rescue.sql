-- Give out again the jobs whose worker is gone, under a new fence: if it ever wakes, its writes
-- change nothing. Suspects stay in their group. A job asked to stop is ended by the
-- `orphaned_stops` sweep instead.
WITH dead AS MATERIALIZED (
    SELECT DISTINCT j.boot_id FROM jobs AS j LEFT JOIN replicas AS r ON r.boot_id = j.boot_id
    WHERE j.boot_id IS NOT NULL AND (r.boot_id IS NULL OR r.stopped_at IS NOT NULL)
), picked AS MATERIALIZED (
    SELECT id FROM jobs WHERE boot_id = ANY (ARRAY(SELECT boot_id FROM dead)) AND state = 'running'
    LIMIT :chunk FOR NO KEY UPDATE SKIP LOCKED
), queued AS (
    UPDATE jobs AS j SET state = 'queued', boot_id = NULL, claimed_at = NULL, fence = j.fence + 1
    WHERE j.id = ANY (ARRAY(SELECT id FROM picked)) AND j.state = 'running'
    RETURNING j.*
), refunded AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    SELECT id, fence - 1, 'settle', model, lane, tenant_id, flow_id,
           -(:input_cost * input_tokens + :output_cost * output_tokens),
           ARRAY[CAST(rank AS bigint), bucket, ord]
    FROM queued
)
SELECT model, count(*) AS jobs FROM queued GROUP BY model
