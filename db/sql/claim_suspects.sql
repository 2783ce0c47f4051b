-- Lease one whole group of suspects, the one that waits longest, to a worker whose engine is empty.
-- The rows are locked in the order of their ids and not passed over: of two workers that want the
-- same group, the second finds no row queued any more, and never a part of it. What is late or of a
-- batch being cancelled is left to the sweep.
WITH chosen AS MATERIALIZED (
    SELECT j.suspects FROM jobs AS j LEFT JOIN batches AS b ON b.id = j.batch_id
    WHERE j.model = :model AND j.suspects IS NOT NULL AND j.state = 'queued' AND j.not_before IS NULL
      AND j.deadline > clock_timestamp() AND b.status IS DISTINCT FROM 'cancelling'
      AND EXISTS (SELECT FROM replicas WHERE boot_id = :boot_id AND state = 'ready')
    ORDER BY j.suspected_at, j.suspects LIMIT 1
), picked AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE model = :model AND suspects = (SELECT suspects FROM chosen)
      AND suspects IS NOT NULL AND state = 'queued' AND not_before IS NULL
    ORDER BY id FOR NO KEY UPDATE
), claimed AS (
    UPDATE jobs SET state = 'running', fence = fence + 1, boot_id = :boot_id, claimed_at = clock_timestamp()
    WHERE id = ANY (ARRAY(SELECT id FROM picked)) AND state = 'queued' AND deadline > clock_timestamp()
      AND NOT EXISTS (SELECT FROM batches AS b WHERE b.id = jobs.batch_id AND b.status = 'cancelling')
    RETURNING jobs.*
), charged AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost)
    SELECT id, fence, 'charge', model, lane, tenant_id, flow_id,
           :input_cost * input_tokens + :output_cost * output_tokens
    FROM claimed
)
SELECT c.id, c.fence, c.tenant_id, c.flow_id, c.batch_id, c.model, c.endpoint, c.lane,
       s.object_key, c.byte_offset, c.byte_length, c.input_tokens, c.output_tokens, c.attempts,
       CAST(extract(epoch FROM c.deadline - c.claimed_at) AS double precision) AS remaining_seconds,
       c.suspects
FROM claimed AS c JOIN segments AS s ON s.id = c.segment_id
ORDER BY c.segment_id, c.byte_offset
