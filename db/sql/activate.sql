-- Makes the accounts of a tenant and of one of its flows active in a lane of a model, in the
-- transaction that queues jobs for them.
--
-- KEY SHARE keeps an active account from being set inactive until that transaction ends: whoever
-- ends a flow takes it FOR UPDATE and then looks afresh. An account that is missing, or inactive
-- by then, is written. It brings no credit: a tenant starts no lower than the least of the active
-- tenants, nor than the floor that an idle lane keeps; a flow no lower than the least of its
-- tenant's active flows, as it is measured against those only.
WITH wanted (flow_id, weight, least) AS (
    SELECT
        CAST(:tenant_level AS uuid), weight,
        greatest(
            (SELECT floor FROM turnstiles WHERE model = :model AND lane = :lane),
            (
                SELECT min(vtime) FROM lane_accounts
                WHERE model = :model AND lane = :lane AND active
                    AND flow_id = '00000000-0000-0000-0000-000000000000'
            ))
    FROM tenants
    WHERE id = :tenant_id
    UNION ALL
    SELECT
        CAST(:flow_id AS uuid), 1,
        coalesce(
            (
                SELECT min(vtime) FROM lane_accounts
                WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id
                    AND active AND flow_id <> '00000000-0000-0000-0000-000000000000'
            ),
            0)
), held AS MATERIALIZED (
    SELECT flow_id
    FROM lane_accounts
    WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id
        AND flow_id IN (:tenant_level, :flow_id) AND active
    ORDER BY flow_id
    FOR KEY SHARE
)
INSERT INTO lane_accounts (model, lane, tenant_id, flow_id, vtime, weight)
SELECT :model, :lane, :tenant_id, flow_id, least, weight
FROM wanted
WHERE flow_id NOT IN (SELECT flow_id FROM held)
ORDER BY flow_id
ON CONFLICT (model, lane, tenant_id, flow_id) DO UPDATE
SET active = true, vtime = greatest(lane_accounts.vtime, excluded.vtime), weight = excluded.weight
