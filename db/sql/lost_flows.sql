-- Flows with a claimable job that no claim would find: an account of theirs is missing or inactive, or
-- lies below where scans begin. A skip scan: one step of the index for each flow, however long.
WITH RECURSIVE queued AS (
    (
        SELECT model, lane, tenant_id, flow_id, rank, bucket, ord FROM jobs
        WHERE state = 'queued' AND not_before IS NULL AND suspects IS NULL
        ORDER BY model, lane, tenant_id, flow_id, rank, bucket, ord LIMIT 1
    )
    UNION ALL
    SELECT next.* FROM queued AS q CROSS JOIN LATERAL (
        SELECT model, lane, tenant_id, flow_id, rank, bucket, ord FROM jobs AS j
        WHERE j.state = 'queued' AND j.not_before IS NULL AND j.suspects IS NULL
          AND (j.model, j.lane, j.tenant_id, j.flow_id) > (q.model, q.lane, q.tenant_id, q.flow_id)
        ORDER BY model, lane, tenant_id, flow_id, rank, bucket, ord LIMIT 1
    ) AS next
)
SELECT q.model, q.lane, q.tenant_id, q.flow_id
FROM queued AS q
LEFT JOIN turnstiles AS g ON g.model = q.model AND g.lane = q.lane
LEFT JOIN lane_accounts AS t
    ON t.model = q.model AND t.lane = q.lane AND t.tenant_id = q.tenant_id
    AND t.flow_id = '00000000-0000-0000-0000-000000000000'
LEFT JOIN lane_accounts AS f
    ON f.model = q.model AND f.lane = q.lane AND f.tenant_id = q.tenant_id AND f.flow_id = q.flow_id
WHERE (
    t.active AND f.active AND t.vtime >= g.lowest AND f.vtime >= t.lowest
    AND (f.head IS NULL OR f.head <= ARRAY[CAST(q.rank AS bigint), q.bucket, q.ord])
) IS NOT TRUE
ORDER BY q.model, q.lane, q.tenant_id, q.flow_id
LIMIT :chunk
