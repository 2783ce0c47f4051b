-- Jobs whose wait is over may be claimed again. Returns how many. The 'queue' deltas tell claims
-- that their flows have a job again that may lie before where the queue began.
WITH woken AS (
    UPDATE jobs SET not_before = NULL WHERE not_before <= statement_timestamp()
    RETURNING model, lane, tenant_id, flow_id, rank, bucket, ord
), told AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    SELECT uuidv7(), 0, 'queue', model, lane, tenant_id, flow_id, 0, min(ARRAY[CAST(rank AS bigint), bucket, ord])
    FROM woken GROUP BY model, lane, tenant_id, flow_id
)
SELECT count(*) FROM woken
