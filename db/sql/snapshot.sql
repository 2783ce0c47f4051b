-- Under the turnstile: the flows with a claimable job, of the tenants that were served least, each
-- with its head job: the first that is not past its deadline. Those of a batch being cancelled are left out,
-- and those whose first :late_jobs jobs are all late, until the sweep has ended these. The scans stop at :accounts rows, and
-- begin where the last fold found the least: how long the queue is and how many tenants there are
-- does not matter.
SELECT t.tenant_id, f.flow_id, t.vtime AS tenant_vtime, t.weight AS tenant_weight, f.vtime AS flow_vtime,
       f.head_cost, f.head_tokens, f.due_seconds, f.jobs_left, f.rank, f.bucket, f.ord
FROM lane_accounts AS t
CROSS JOIN LATERAL (
    SELECT a.flow_id, a.vtime, b.total - b.succeeded - b.unsuccessful AS jobs_left,
           head.rank, head.bucket, head.ord, head.input_tokens + head.output_tokens AS head_tokens,
           :input_cost * head.input_tokens + :output_cost * head.output_tokens AS head_cost,
           CAST(extract(epoch FROM head.deadline - clock_timestamp()) AS double precision) AS due_seconds
    FROM lane_accounts AS a
    LEFT JOIN batches AS b ON b.id = a.flow_id
    CROSS JOIN LATERAL (
        SELECT first.* FROM (
            SELECT j.rank, j.bucket, j.ord, j.input_tokens, j.output_tokens, j.deadline
            FROM jobs AS j
            WHERE j.model = :model AND j.lane = :lane AND j.tenant_id = t.tenant_id AND j.flow_id = a.flow_id
              AND j.state = 'queued' AND j.not_before IS NULL AND j.suspects IS NULL
              AND (j.rank, j.bucket, j.ord)
                  >= (coalesce(a.head[1], -32768), coalesce(a.head[2], -2147483648), coalesce(a.head[3], -1))
            ORDER BY j.rank, j.bucket, j.ord LIMIT :late_jobs
        ) AS first
        WHERE first.deadline > clock_timestamp()
        ORDER BY first.rank, first.bucket, first.ord LIMIT 1
    ) AS head
    WHERE a.model = :model AND a.lane = :lane AND a.tenant_id = t.tenant_id
      AND a.flow_id <> '00000000-0000-0000-0000-000000000000' AND a.active AND a.vtime >= t.lowest
      AND b.status IS DISTINCT FROM 'cancelling'
    ORDER BY a.vtime LIMIT :flows
) AS f
WHERE t.model = :model AND t.lane = :lane AND t.active
  AND t.flow_id = '00000000-0000-0000-0000-000000000000' AND t.vtime >= :lowest
ORDER BY t.vtime
LIMIT :accounts
