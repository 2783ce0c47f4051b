-- Under the turnstile: move every delta of a lane into the virtual time of its flow and its tenant.
WITH folded AS (
    DELETE FROM account_deltas WHERE model = :model AND lane = :lane
    RETURNING tenant_id, flow_id, cost
), per_flow AS (
    SELECT tenant_id, flow_id, sum(cost) AS cost FROM folded GROUP BY tenant_id, flow_id
), per_account AS (
    SELECT tenant_id, flow_id, cost FROM per_flow
    UNION ALL
    SELECT tenant_id, CAST('00000000-0000-0000-0000-000000000000' AS uuid), sum(cost)
    FROM per_flow GROUP BY tenant_id
)
UPDATE lane_accounts AS a
SET vtime = a.vtime + p.cost / a.weight
FROM per_account AS p
WHERE a.model = :model AND a.lane = :lane AND a.tenant_id = p.tenant_id AND a.flow_id = p.flow_id
