SET LOCAL ROLE fairlane_owner;

REVOKE MAINTAIN ON lane_accounts, account_deltas, turnstiles, replicas FROM fairlane_engine;
ALTER TABLE replicas RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor,
    autovacuum_analyze_threshold, autovacuum_vacuum_cost_delay
);
ALTER TABLE turnstiles RESET (
    autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_analyze_scale_factor,
    autovacuum_analyze_threshold, autovacuum_vacuum_cost_delay
);
ALTER TABLE lane_accounts RESET (autovacuum_vacuum_cost_delay);
ALTER TABLE account_deltas RESET (
    autovacuum_analyze_scale_factor, autovacuum_analyze_threshold, autovacuum_vacuum_cost_delay
);
DROP TABLE service_rates, length_deltas, output_lengths;

DROP INDEX account_deltas_lane;
DELETE FROM account_deltas WHERE kind = 'queue';
ALTER TABLE account_deltas
    DROP CONSTRAINT account_deltas_kind_check,
    ADD CONSTRAINT account_deltas_kind_check CHECK (kind IN ('charge', 'settle')),
    DROP COLUMN head,
    DROP COLUMN xid,
    DROP COLUMN reserved;
CREATE INDEX account_deltas_lane ON account_deltas (model, lane);
ALTER TABLE turnstiles DROP COLUMN folded_at, DROP COLUMN folded_xid, DROP COLUMN lowest;
ALTER TABLE lane_accounts DROP COLUMN head, DROP COLUMN lowest, DROP COLUMN reserved, DROP COLUMN start;

-- Suspects become ordinary queued jobs again.
DROP INDEX jobs_ageing, jobs_suspects, jobs_claimable;
ALTER TABLE jobs DROP CONSTRAINT jobs_suspects_since, DROP COLUMN suspected_at, DROP COLUMN suspects;
CREATE INDEX jobs_claimable ON jobs (model, lane, tenant_id, flow_id, rank, bucket, ord)
    WHERE state = 'queued' AND not_before IS NULL;

RESET ROLE;
