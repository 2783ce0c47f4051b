-- Lease the head jobs of the planned flows to one worker and charge their tenants. Rows that
-- another transaction holds are passed over; a worker that lost its own lease gets nothing.
WITH take AS MATERIALIZED (
    SELECT tenant_id, flow_id, jobs, rank, bucket, ord
    FROM unnest(
        CAST(:tenants AS uuid[]), CAST(:flows AS uuid[]), CAST(:counts AS integer[]),
        CAST(:ranks AS smallint[]), CAST(:buckets AS integer[]), CAST(:ords AS bigint[])
    ) AS take(tenant_id, flow_id, jobs, rank, bucket, ord)
    WHERE EXISTS (SELECT FROM replicas WHERE boot_id = :boot_id AND state = 'ready')
), picked AS MATERIALIZED (
    SELECT job.id FROM take CROSS JOIN LATERAL (
        SELECT id FROM jobs
        WHERE model = :model AND lane = :lane AND tenant_id = take.tenant_id AND flow_id = take.flow_id
          AND state = 'queued' AND not_before IS NULL AND suspects IS NULL AND deadline > clock_timestamp()
          AND (rank, bucket, ord) >= (take.rank, take.bucket, take.ord)
        ORDER BY rank, bucket, ord
        LIMIT take.jobs
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
), claimed AS (
    UPDATE jobs SET state = 'running', fence = fence + 1, boot_id = :boot_id, claimed_at = clock_timestamp()
    -- An array and not a join: the planner takes a LIMIT it cannot see for a tenth of the table.
    WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND state = 'queued'
    RETURNING jobs.*
), charged AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    SELECT id, fence, 'charge', model, lane, tenant_id, flow_id,
           :input_cost * input_tokens + :output_cost * output_tokens,
           -- Only a batch queues all its jobs at once: into another flow, one may still come before these.
           CASE WHEN batch_id IS NOT NULL THEN ARRAY[CAST(rank AS bigint), bucket, ord] END
    FROM claimed
)
SELECT c.id, c.fence, c.tenant_id, c.flow_id, c.batch_id, c.model, c.endpoint, c.lane,
       s.object_key, c.byte_offset, c.byte_length, c.input_tokens, c.output_tokens, c.attempts,
       CAST(extract(epoch FROM c.deadline - c.claimed_at) AS double precision) AS remaining_seconds,
       c.suspects
FROM claimed AS c
-- A look-up for each job: joined, and with sorts off, every segment there is would be read in order.
CROSS JOIN LATERAL (SELECT object_key FROM segments WHERE id = c.segment_id LIMIT 1) AS s
ORDER BY c.segment_id, c.byte_offset
