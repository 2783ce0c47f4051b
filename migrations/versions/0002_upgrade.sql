SET LOCAL ROLE fairlane_owner;

-- A job that was in an engine when it died waits with its group, outside the index of the claims,
-- for an engine of its own. `suspected_at` is when the group began to wait.
ALTER TABLE jobs
    ADD COLUMN suspects uuid,
    ADD COLUMN suspected_at timestamptz,
    ADD CONSTRAINT jobs_suspects_since CHECK ((suspects IS NULL) = (suspected_at IS NULL));
DROP INDEX jobs_claimable;
CREATE INDEX jobs_claimable ON jobs (model, lane, tenant_id, flow_id, rank, bucket, ord)
    WHERE state = 'queued' AND not_before IS NULL AND suspects IS NULL;
CREATE INDEX jobs_suspects ON jobs (model, suspected_at, suspects)
    WHERE suspects IS NOT NULL AND state = 'queued' AND not_before IS NULL;
-- Jobs that their client put behind others, for the sweep that lets them age.
CREATE INDEX jobs_ageing ON jobs (created_at) WHERE state = 'queued' AND rank > 0;

-- An ordered scan meets the entries of every version of a row that some old transaction still
-- might see, and with a hot table the least come first. These columns say where to begin:
-- `lowest`: no active flow of this tenant has less virtual time (rows of tenants);
-- `head`: no claimable job of this flow has a lesser (rank, bucket, ord) (rows of flows);
-- `start` is where the account was last lifted to; no refund takes it lower. `reserved` is the part of
-- its cost that stands for running jobs: without it, its virtual time says what it was served.
ALTER TABLE lane_accounts
    ADD COLUMN start double precision NOT NULL DEFAULT 0,
    ADD COLUMN reserved double precision NOT NULL DEFAULT 0,
    ADD COLUMN lowest double precision NOT NULL DEFAULT 0,
    ADD COLUMN head bigint[];
-- `lowest` as above, of the tenants. The deltas of transactions before `folded_xid` are all folded.
ALTER TABLE turnstiles
    ADD COLUMN lowest double precision NOT NULL DEFAULT 0,
    ADD COLUMN folded_xid bigint NOT NULL DEFAULT 0,
    ADD COLUMN folded_at timestamptz;
-- 'queue' charges nothing: it says that jobs of the flow became claimable. `head` is the place of
-- the job in its flow: of a charge, where the queue begins from now on; else where it begins again.
-- `reserved` is by how much the reserved cost changes; NULL: as the cost.
ALTER TABLE account_deltas
    ADD COLUMN reserved double precision,
    ADD COLUMN xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    ADD COLUMN head bigint[],
    DROP CONSTRAINT account_deltas_kind_check,
    ADD CONSTRAINT account_deltas_kind_check CHECK (kind IN ('charge', 'settle', 'queue'));
DROP INDEX account_deltas_lane;
CREATE INDEX account_deltas_lane ON account_deltas (model, lane, xid);

-- How long answers were, by powers of two (lanes/lengths.py): what a tenant's next ones may take.
CREATE TABLE output_lengths (
    tenant_id uuid NOT NULL,
    model text NOT NULL,
    input_bucket smallint NOT NULL,               -- of the estimate that was known before it ran
    output_bucket smallint NOT NULL,
    jobs bigint NOT NULL CHECK (jobs > 0),
    PRIMARY KEY (tenant_id, model, input_bucket, output_bucket)
) WITH (fillfactor = 70);
-- Append-only, one row a flush of a worker and kind; folded into the two tables beside it.
CREATE TABLE length_deltas (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id uuid NOT NULL,
    model text NOT NULL,
    lane smallint NOT NULL,
    input_bucket smallint NOT NULL,
    output_bucket smallint NOT NULL,
    jobs integer NOT NULL,
    cost double precision NOT NULL                -- what they really used
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- What a lane of a model was served lately: sums that halve with time (lanes/lately.py).
CREATE TABLE service_rates (
    model text NOT NULL,
    lane smallint NOT NULL,
    cost double precision NOT NULL,
    jobs double precision NOT NULL,
    seconds double precision NOT NULL,
    measured_at timestamptz NOT NULL,
    PRIMARY KEY (model, lane)
) WITH (fillfactor = 50);

-- Small tables with many updates: vacuum and statistics by count, as a share of so few rows says
-- nothing. With none, the planner took one row for a thousand and a claim took 75 ms.
ALTER TABLE account_deltas SET (
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE lane_accounts SET (autovacuum_vacuum_cost_delay = 0);
ALTER TABLE turnstiles SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE replicas SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100, autovacuum_vacuum_cost_delay = 0
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['output_lengths', 'length_deltas'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON %I USING (tenant_id = fairlane_tenant())'
            ' WITH CHECK (tenant_id = fairlane_tenant())', name);
    END LOOP;
END
$$;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON output_lengths, length_deltas, service_rates
    TO fairlane_engine;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO fairlane_engine;
-- The reconciler analyses them itself: autovacuum looks once a minute at most, and may be busy.
GRANT MAINTAIN ON lane_accounts, account_deltas, turnstiles, replicas TO fairlane_engine;

RESET ROLE;
