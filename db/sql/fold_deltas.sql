-- Under the turnstile: move every delta of a lane into the virtual time of its flow and its tenant
-- (`lanes.account.folded`), and let the floor rise (`risen`) to what the least served active tenant
-- was served; among those that are not touched here, only the first 8 are looked at. Returns `lowest`:
-- no active tenant has less virtual time.
--
-- Deltas are found from `folded_xid` on: what transactions before it inserted was visible to an
-- earlier fold and is gone, and an old transaction elsewhere would make every scan read all that.
-- The turnstile itself is written only every :turnstile_seconds, as each version of it costs the
-- claims to come, and at once where an account fell below `lowest`: it would not be found.
WITH gate AS MATERIALIZED (
    SELECT lowest, folded_xid, folded_at FROM turnstiles WHERE model = :model AND lane = :lane
), folded AS (
    DELETE FROM account_deltas
    WHERE model = :model AND lane = :lane AND xid >= (SELECT folded_xid FROM gate)
    RETURNING tenant_id, flow_id, kind, cost, coalesce(reserved, cost) AS reserved, head
), per_flow AS MATERIALIZED (
    SELECT tenant_id, flow_id, sum(cost) AS cost, sum(reserved) AS reserved,
           max(head) FILTER (WHERE kind = 'charge') AS claimed, min(head) FILTER (WHERE kind <> 'charge') AS again
    FROM folded GROUP BY tenant_id, flow_id
), flows AS (
    UPDATE lane_accounts AS a
    SET vtime = greatest(a.start, a.vtime + p.cost / a.weight),
        reserved = greatest(0, a.reserved + p.reserved),
        head = CASE
            WHEN a.head IS NOT NULL OR p.claimed IS NOT NULL
            THEN least(greatest(a.head, p.claimed), p.again)
        END
    FROM per_flow AS p
    WHERE a.model = :model AND a.lane = :lane AND a.tenant_id = p.tenant_id AND a.flow_id = p.flow_id
      -- The same once more, for a planner without statistics: by this it cannot read all accounts.
      AND a.tenant_id = ANY (ARRAY(SELECT tenant_id FROM per_flow))
    RETURNING a.tenant_id, a.flow_id, a.vtime, a.active
), per_tenant AS MATERIALIZED (
    SELECT tenant_id, sum(cost) AS cost, sum(reserved) AS reserved FROM per_flow GROUP BY tenant_id
), tenants AS (
    UPDATE lane_accounts AS a
    SET vtime = greatest(a.start, a.vtime + p.cost / a.weight),
        reserved = greatest(0, a.reserved + p.reserved),
        lowest = coalesce(
            least(
                (SELECT min(f.vtime) FROM flows AS f WHERE f.tenant_id = a.tenant_id AND f.active),
                (
                    SELECT o.vtime FROM lane_accounts AS o
                    WHERE o.model = :model AND o.lane = :lane AND o.tenant_id = a.tenant_id
                      AND o.flow_id <> '00000000-0000-0000-0000-000000000000' AND o.active
                      AND o.vtime >= a.lowest AND o.flow_id <> ALL (ARRAY(SELECT flow_id FROM flows))
                    ORDER BY o.vtime LIMIT 1
                )),
            a.lowest)
    FROM per_tenant AS p
    WHERE a.model = :model AND a.lane = :lane AND a.tenant_id = p.tenant_id
      AND a.flow_id = '00000000-0000-0000-0000-000000000000'
      AND a.tenant_id = ANY (ARRAY(SELECT tenant_id FROM per_tenant))
    RETURNING a.tenant_id, a.vtime, a.vtime - a.reserved / a.weight AS served, a.active
), others AS MATERIALIZED (
    SELECT o.vtime, o.vtime - o.reserved / o.weight AS served FROM lane_accounts AS o
    WHERE o.model = :model AND o.lane = :lane
      AND o.flow_id = '00000000-0000-0000-0000-000000000000' AND o.active
      AND o.vtime >= (SELECT lowest FROM gate) AND o.tenant_id <> ALL (ARRAY(SELECT tenant_id FROM tenants))
    ORDER BY o.vtime LIMIT 8
), served_least AS MATERIALIZED (
    SELECT least((SELECT min(vtime) FROM tenants WHERE active), (SELECT min(vtime) FROM others)) AS vtime,
           least((SELECT min(served) FROM tenants WHERE active), (SELECT min(served) FROM others)) AS served
), kept AS (
    UPDATE turnstiles AS t
    SET floor = greatest(t.floor, s.served), lowest = coalesce(s.vtime, t.floor), folded_at = clock_timestamp(),
        folded_xid = pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    FROM served_least AS s
    WHERE t.model = :model AND t.lane = :lane
      AND (
          t.folded_at IS NULL OR s.vtime < t.lowest
          OR t.folded_at <= clock_timestamp() - make_interval(secs => :turnstile_seconds)
      )
)
SELECT coalesce((SELECT vtime FROM served_least), (SELECT lowest FROM gate)) AS lowest
