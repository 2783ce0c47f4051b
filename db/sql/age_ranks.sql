-- Jobs that have waited long go before what comes in meanwhile, oldest first: a line of a batch that was put
-- behind others to rank 0, as the lines of a batch are all there from its beginning; a single job, whatever
-- its rank, to one that no client may set. There they are all alike again. A stable time, as only that can
-- bound the index scan. Rows that a claim holds are passed over. Returns how many. The 'queue' deltas tell
-- claims that their flows have a job that may lie before where the queue began.
WITH aged AS (
    UPDATE jobs SET rank = CASE WHEN batch_id IS NULL THEN -32768 ELSE 0 END
    WHERE state = 'queued' AND id = ANY (ARRAY(
        SELECT id FROM jobs
        WHERE state = 'queued' AND rank > CASE WHEN batch_id IS NULL THEN -32768 ELSE 0 END
          AND created_at <= statement_timestamp() - make_interval(secs => :age_seconds)
        ORDER BY created_at LIMIT :chunk FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING model, lane, tenant_id, flow_id, rank, bucket, ord
), told AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    SELECT uuidv7(), 0, 'queue', model, lane, tenant_id, flow_id, 0, min(ARRAY[CAST(rank AS bigint), bucket, ord])
    FROM aged GROUP BY model, lane, tenant_id, flow_id
)
SELECT count(*) FROM aged
