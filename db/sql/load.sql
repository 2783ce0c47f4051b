-- What stands before a new job of a flow in a lane: what its own tenant has queued (of the first :look
-- rows each, by the index of the claims), and of all tenants together only numbers.
WITH own_flow AS (
    SELECT coalesce(sum(cost), 0) AS cost
    FROM (
        SELECT bucket, :input_cost * input_tokens + :output_cost * output_tokens AS cost
        FROM jobs
        WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id AND flow_id = :flow_id
            AND state = 'queued' AND not_before IS NULL AND suspects IS NULL
        ORDER BY rank, bucket, ord
        LIMIT :look
    ) AS first
    -- What is due in a later bucket runs after it.
    WHERE bucket <= floor((extract(epoch FROM clock_timestamp()) + :deadline_seconds) / :bucket_seconds)
), other_flows AS (
    SELECT coalesce(sum(cost), 0) AS cost, count(DISTINCT flow_id) AS flows
    FROM (
        SELECT flow_id, :input_cost * input_tokens + :output_cost * output_tokens AS cost
        FROM jobs
        WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id AND flow_id <> :flow_id
            AND state = 'queued' AND not_before IS NULL AND suspects IS NULL
        ORDER BY flow_id, rank, bucket, ord
        LIMIT :look
    ) AS first
)
SELECT
    lane.single_jobs, lane.queued_cost, lane.oldest_seconds, lane.weights, lane.seat_rate,
    own_flow.cost AS ahead_cost, other_flows.cost AS flows_cost, other_flows.flows,
    EXISTS (
        SELECT FROM jobs
        WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id
            AND state = 'queued' AND not_before IS NULL AND suspects IS NULL
    ) AS counted,
    (SELECT weight FROM tenants WHERE id = :tenant_id) AS weight,
    coalesce((
        SELECT cost / nullif(seconds, 0) FROM service_rates WHERE model = :model AND lane = :lane), 0) AS rate,
    (
        SELECT count(*) FROM replicas
        WHERE deployment = :model AND stopped_at IS NULL AND state = 'ready') AS replicas
FROM own_flow, other_flows,
    fairlane_load(
        :model, CAST(:lane AS smallint), :look, CAST(:input_cost AS double precision),
        CAST(:output_cost AS double precision)) AS lane
