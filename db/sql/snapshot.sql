-- Under the turnstile: the active flows of the tenants that were served least, each with the cost
-- of its head job. Flows without a claimable job, and those of a batch being cancelled, are left out.
SELECT t.tenant_id, f.flow_id, t.vtime AS tenant_vtime, t.weight AS tenant_weight, f.vtime AS flow_vtime,
       head.cost
FROM (
    SELECT tenant_id, vtime, weight FROM lane_accounts
    WHERE model = :model AND lane = :lane AND active
      AND flow_id = '00000000-0000-0000-0000-000000000000'
    ORDER BY vtime LIMIT :accounts
) AS t
CROSS JOIN LATERAL (
    SELECT flow_id, vtime FROM lane_accounts
    WHERE model = :model AND lane = :lane AND tenant_id = t.tenant_id AND active
      AND flow_id <> '00000000-0000-0000-0000-000000000000'
    ORDER BY vtime LIMIT :accounts
) AS f
CROSS JOIN LATERAL (
    SELECT :input_cost * input_tokens + :output_cost * output_tokens AS cost FROM jobs
    WHERE model = :model AND lane = :lane AND tenant_id = t.tenant_id AND flow_id = f.flow_id
      AND state = 'queued' AND not_before IS NULL
    ORDER BY rank, bucket, ord LIMIT 1
) AS head
WHERE NOT EXISTS (SELECT FROM batches WHERE id = f.flow_id AND status = 'cancelling')
ORDER BY t.vtime, f.vtime
LIMIT :accounts
