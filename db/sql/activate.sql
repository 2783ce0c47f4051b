-- Makes the accounts of a tenant and of one of its flows active in a lane of a model, in the
-- transaction that queues jobs for them, and tells the next fold of it.
--
-- KEY SHARE keeps an active account from being set inactive until that transaction ends: whoever
-- ends a flow takes it FOR UPDATE and then looks afresh. An account that is missing, or inactive
-- by then, is written; so is that of a tenant who had nothing queued, though a job of it may run. It
-- brings no credit (`lanes.account.lifted`): a tenant starts no lower than the least that another
-- active tenant was served (of the first 8), nor than the floor that an idle lane keeps; a flow no
-- lower than the least of its tenant's other active flows, as it is measured against those only.
--
-- The 'queue' delta makes the next fold look at both accounts: it may have found the least of the others
-- while this transaction was open. Its empty head takes the flow's queue from the beginning.
WITH gate AS MATERIALIZED (
    SELECT floor, lowest FROM turnstiles WHERE model = :model AND lane = :lane
), wanted (flow_id, weight, least) AS (
    SELECT
        CAST(:tenant_level AS uuid), weight,
        greatest(
            (SELECT floor FROM gate),
            (
                SELECT min(served) FROM (
                    SELECT vtime - reserved / lane_accounts.weight AS served FROM lane_accounts
                    WHERE model = :model AND lane = :lane AND active AND tenant_id <> :tenant_id
                        AND flow_id = '00000000-0000-0000-0000-000000000000'
                        AND vtime >= (SELECT lowest FROM gate)
                    ORDER BY vtime LIMIT 8
                ) AS least
            ))
    FROM tenants
    WHERE id = :tenant_id
    UNION ALL
    SELECT
        CAST(:flow_id AS uuid), 1,
        coalesce(
            (
                SELECT min(served) FROM (
                    SELECT vtime - reserved AS served FROM lane_accounts
                    WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id AND flow_id <> :flow_id
                        AND active AND flow_id <> '00000000-0000-0000-0000-000000000000'
                    ORDER BY vtime LIMIT 8
                ) AS least
            ),
            0)
), held AS MATERIALIZED (
    SELECT flow_id
    FROM lane_accounts
    WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id
        AND flow_id IN (:tenant_level, :flow_id) AND active
        AND (
            flow_id = :flow_id
            -- What was just queued is of this flow; two ranges, so as not to read through all of it.
            OR EXISTS (
                SELECT FROM jobs
                WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id AND flow_id < :flow_id
                    AND state = 'queued' AND not_before IS NULL AND suspects IS NULL)
            OR EXISTS (
                SELECT FROM jobs
                WHERE model = :model AND lane = :lane AND tenant_id = :tenant_id AND flow_id > :flow_id
                    AND state = 'queued' AND not_before IS NULL AND suspects IS NULL)
        )
    ORDER BY flow_id
    FOR KEY SHARE
), told AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, head)
    VALUES (uuidv7(), 0, 'queue', :model, :lane, :tenant_id, :flow_id, 0, '{}')
)
INSERT INTO lane_accounts (model, lane, tenant_id, flow_id, vtime, weight, start)
SELECT :model, :lane, :tenant_id, flow_id, least, weight, least
FROM wanted
WHERE flow_id NOT IN (SELECT flow_id FROM held)
ORDER BY flow_id
ON CONFLICT (model, lane, tenant_id, flow_id) DO UPDATE
SET active = true, weight = excluded.weight, head = NULL, lowest = 0,
    vtime = greatest(lane_accounts.vtime, excluded.vtime),
    start = greatest(lane_accounts.vtime, excluded.vtime)
