-- Roles belong to the cluster, so another database of it may have made them already.
-- fairlane_owner owns the schema, fairlane_engine runs it (ingest, claims, sweeps) and sees every
-- tenant, fairlane_api serves requests and sees one tenant per transaction by row-level security.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fairlane_owner') THEN
        CREATE ROLE fairlane_owner NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fairlane_engine') THEN
        CREATE ROLE fairlane_engine NOLOGIN BYPASSRLS;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fairlane_api') THEN
        CREATE ROLE fairlane_api NOLOGIN;
    END IF;
    EXECUTE format('GRANT fairlane_owner, fairlane_engine, fairlane_api TO %I', current_user);
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO fairlane_engine', current_database());
    GRANT USAGE, CREATE ON SCHEMA public TO fairlane_owner;
    GRANT USAGE ON SCHEMA public TO fairlane_engine, fairlane_api;
END
$$;

SET LOCAL ROLE fairlane_owner;

CREATE TABLE tenants (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    name text NOT NULL UNIQUE CHECK (name <> ''),
    weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE api_keys (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id uuid NOT NULL REFERENCES tenants,
    short_token text NOT NULL UNIQUE,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id);

CREATE TABLE deployments (
    name text PRIMARY KEY,
    engine text NOT NULL CHECK (engine IN ('vllm', 'simulated')),
    context_tokens integer NOT NULL CHECK (context_tokens > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row a worker process. Its lease stands for the leases of all jobs it holds: one update a
-- beat instead of one a job. A worker that lost it holds nothing (see db/sql/rescue.sql).
CREATE TABLE replicas (
    boot_id uuid PRIMARY KEY,
    deployment text NOT NULL REFERENCES deployments,
    host text NOT NULL,
    pid integer NOT NULL,
    seats integer NOT NULL CHECK (seats > 0),
    state text NOT NULL CHECK (state IN ('warming', 'ready', 'draining', 'stopped', 'lost')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until timestamptz NOT NULL,
    stopped_at timestamptz,
    CHECK ((state IN ('stopped', 'lost')) = (stopped_at IS NOT NULL))
) WITH (fillfactor = 50);
CREATE INDEX replicas_alive ON replicas (deployment) WHERE stopped_at IS NULL;

CREATE TABLE files (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id uuid NOT NULL REFERENCES tenants,
    purpose text NOT NULL CHECK (purpose IN ('batch', 'batch_output')),
    filename text NOT NULL,
    bytes bigint NOT NULL CHECK (bytes >= 0),
    object_key text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    deleted_at timestamptz,
    erased_at timestamptz CHECK (erased_at IS NULL OR deleted_at IS NOT NULL),
    UNIQUE (tenant_id, id)
);
CREATE INDEX files_listed ON files (tenant_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX files_expiring ON files (expires_at) WHERE deleted_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX files_unerased ON files (deleted_at) WHERE deleted_at IS NOT NULL AND erased_at IS NULL;

CREATE TABLE batches (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id uuid NOT NULL REFERENCES tenants,
    endpoint text NOT NULL,
    input_file_id uuid NOT NULL,
    status text NOT NULL DEFAULT 'validating' CHECK (status IN (
        'validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled'
    )),
    completion_window text NOT NULL,
    on_invalid_line text NOT NULL DEFAULT 'reject' CHECK (on_invalid_line IN ('reject', 'record')),
    metadata jsonb,
    output_expires_seconds integer CHECK (output_expires_seconds > 0),
    model text,                                   -- the one model of all lines, if there is one
    total integer CHECK (total >= 0),             -- known once validated
    errors jsonb,                                 -- the first 1,000 validation errors
    errors_total integer NOT NULL DEFAULT 0,
    errors_file_id uuid,                          -- all of them, one a line
    output_file_id uuid,
    error_file_id uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    in_progress_at timestamptz,
    finalizing_at timestamptz,
    completed_at timestamptz,
    failed_at timestamptz,
    expired_at timestamptz,
    cancelling_at timestamptz,
    cancelled_at timestamptz,
    -- folded from batch_progress; what is not folded yet is added when the batch is read
    succeeded integer NOT NULL DEFAULT 0,
    unsuccessful integer NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    cached_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    reasoning_tokens bigint NOT NULL DEFAULT 0,
    -- held by the one process that validates or finalises this batch
    fence integer NOT NULL DEFAULT 0,
    lease_until timestamptz,
    FOREIGN KEY (tenant_id, input_file_id) REFERENCES files (tenant_id, id),
    UNIQUE (tenant_id, id),
    CHECK (status NOT IN ('in_progress', 'finalizing', 'completed') OR total IS NOT NULL),
    CHECK ((status = 'completed') = (completed_at IS NOT NULL)),
    CHECK ((status = 'failed') = (failed_at IS NOT NULL)),
    CHECK ((status = 'expired') = (expired_at IS NOT NULL)),
    CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX batches_listed ON batches (tenant_id, created_at, id);
CREATE INDEX batches_open ON batches (status)
    WHERE status IN ('validating', 'in_progress', 'finalizing', 'cancelling');

-- Append-only counts, one row a flush of a worker: no hot row while a batch runs.
CREATE TABLE batch_progress (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    succeeded integer NOT NULL,
    unsuccessful integer NOT NULL,
    input_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX batch_progress_batch ON batch_progress (batch_id);

-- Immutable objects that hold request bodies (input) or large outcomes (result).
CREATE TABLE segments (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant_id uuid NOT NULL,
    batch_id uuid,
    kind text NOT NULL CHECK (kind IN ('input', 'result')),
    object_key text NOT NULL UNIQUE,
    bytes bigint NOT NULL CHECK (bytes >= 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX segments_batch ON segments (batch_id);

-- Live jobs only. Narrow: the body lies in a segment, the outcome in `outcomes`.
CREATE TABLE jobs (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id uuid NOT NULL,
    flow_id uuid NOT NULL,
    batch_id uuid,
    segment_id bigint NOT NULL,
    ord bigint NOT NULL,
    deadline timestamptz NOT NULL,
    not_before timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_at timestamptz,
    boot_id uuid,
    fence integer NOT NULL DEFAULT 0,
    bucket integer NOT NULL,
    line integer CHECK (line > 0),
    byte_offset integer NOT NULL CHECK (byte_offset >= 0),
    byte_length integer NOT NULL CHECK (byte_length > 0),
    input_tokens integer NOT NULL CHECK (input_tokens > 0),
    output_tokens integer NOT NULL CHECK (output_tokens >= 0),
    lane smallint NOT NULL CHECK (lane BETWEEN 0 AND 2),
    rank smallint NOT NULL DEFAULT 0,
    attempts smallint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    state text NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'cancelling')),
    ending text CHECK (ending IN ('cancelled', 'expired')),
    model text NOT NULL,
    endpoint text NOT NULL,
    custom_id text,
    CHECK ((state = 'queued') = (boot_id IS NULL)),
    CHECK ((state = 'queued') = (claimed_at IS NULL)),
    CHECK ((state = 'cancelling') = (ending IS NOT NULL)),
    CHECK ((batch_id IS NULL) = (line IS NULL)),
    CHECK (state = 'queued' OR not_before IS NULL)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_claimable ON jobs (model, lane, tenant_id, flow_id, rank, bucket, ord)
    WHERE state = 'queued' AND not_before IS NULL;
CREATE INDEX jobs_delayed ON jobs (not_before) WHERE not_before IS NOT NULL;
CREATE INDEX jobs_deadline ON jobs (deadline);
CREATE INDEX jobs_held ON jobs (boot_id) WHERE boot_id IS NOT NULL;
CREATE UNIQUE INDEX jobs_batch_line ON jobs (batch_id, line) WHERE batch_id IS NOT NULL;

-- Ended jobs, one partition a day (UTC), dropped whole by retention.
CREATE TABLE jobs_done (
    id uuid NOT NULL,
    finished_on date NOT NULL,
    tenant_id uuid NOT NULL,
    flow_id uuid NOT NULL,
    batch_id uuid,
    line integer,
    custom_id text,
    model text NOT NULL,
    endpoint text NOT NULL,
    lane smallint NOT NULL,
    state text NOT NULL CHECK (state IN ('succeeded', 'failed', 'expired', 'cancelled')),
    fence integer NOT NULL,
    attempts smallint NOT NULL,
    boot_id uuid,
    status_code smallint,                         -- the engine's HTTP status, if it answered
    error_code text,                              -- ours, if it did not
    input_tokens integer NOT NULL DEFAULT 0,
    cached_tokens integer NOT NULL DEFAULT 0,
    output_tokens integer NOT NULL DEFAULT 0,
    reasoning_tokens integer NOT NULL DEFAULT 0,
    -- the stages of its life: accepted, leased, given to the engine, answered, stored
    created_at timestamptz NOT NULL,
    claimed_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (id, finished_on),
    CHECK (state <> 'succeeded' OR (status_code = 200 AND error_code IS NULL)),
    CHECK (num_nonnulls(status_code, error_code) = 1)
) PARTITION BY RANGE (finished_on);
CREATE UNIQUE INDEX jobs_done_batch_line ON jobs_done (batch_id, line, finished_on);

-- What an ended job answered: inline when small, else a range of a result segment.
CREATE TABLE outcomes (
    job_id uuid NOT NULL,
    finished_on date NOT NULL,
    tenant_id uuid NOT NULL,
    body bytea,
    segment_id bigint,
    byte_offset integer,
    byte_length integer,
    PRIMARY KEY (job_id, finished_on),
    CHECK (num_nonnulls(body, segment_id) = 1),
    CHECK (num_nonnulls(segment_id, byte_offset, byte_length) IN (0, 3))
) PARTITION BY RANGE (finished_on);

-- The DEFAULT partitions catch what ends on a day that nobody prepared: nothing is ever refused.
CREATE TABLE jobs_done_default PARTITION OF jobs_done DEFAULT;
CREATE TABLE outcomes_default PARTITION OF outcomes DEFAULT;

-- Virtual time of tenants (flow_id all zero) and, below them, of their flows, per model and lane.
CREATE TABLE lane_accounts (
    model text NOT NULL,
    lane smallint NOT NULL,
    tenant_id uuid NOT NULL,
    flow_id uuid NOT NULL,
    vtime double precision NOT NULL DEFAULT 0,
    weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    active boolean NOT NULL DEFAULT true,
    PRIMARY KEY (model, lane, tenant_id, flow_id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 200
);
CREATE INDEX lane_accounts_tenants ON lane_accounts (model, lane, vtime)
    WHERE active AND flow_id = '00000000-0000-0000-0000-000000000000';
CREATE INDEX lane_accounts_flows ON lane_accounts (model, lane, tenant_id, vtime)
    WHERE active AND flow_id <> '00000000-0000-0000-0000-000000000000';

-- Charges and settlements, written with the transition they belong to and folded into
-- lane_accounts only under the turnstile of their model and lane.
CREATE TABLE account_deltas (
    job_id uuid NOT NULL,
    fence integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('charge', 'settle')),
    model text NOT NULL,
    lane smallint NOT NULL,
    tenant_id uuid NOT NULL,
    flow_id uuid NOT NULL,
    cost double precision NOT NULL,
    PRIMARY KEY (job_id, fence, kind)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX account_deltas_lane ON account_deltas (model, lane);

-- Whoever claims from a lane of a model holds its row; `floor` is the least virtual time served.
CREATE TABLE turnstiles (
    model text NOT NULL,
    lane smallint NOT NULL,
    floor double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (model, lane)
) WITH (fillfactor = 50);

-- Row-level security: the api sees the tenant that its transaction names, and nothing without one.
CREATE FUNCTION fairlane_tenant() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('fairlane.tenant_id', true), '')::uuid $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'files', 'batches', 'batch_progress', 'segments', 'jobs', 'jobs_done', 'outcomes',
        'lane_accounts', 'account_deltas', 'api_keys'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON %I USING (tenant_id = fairlane_tenant())'
            ' WITH CHECK (tenant_id = fairlane_tenant())', name);
    END LOOP;
END
$$;
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenants USING (id = fairlane_tenant());
-- Before the tenant is known, the key that a request shows opens exactly its own row.
CREATE POLICY shown_key ON api_keys FOR SELECT
    USING (short_token = current_setting('fairlane.short_token', true));

-- Makes the partitions of one day; SECURITY DEFINER because only the owner may create tables.
CREATE FUNCTION fairlane_make_partitions(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    AS $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['jobs_done', 'outcomes'] LOOP
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                       parent || '_' || to_char(day, 'YYYYMMDD'), parent, day, day + 1);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO fairlane_engine',
                       parent || '_' || to_char(day, 'YYYYMMDD'));
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION fairlane_make_partitions(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fairlane_make_partitions(date) TO fairlane_engine;
SELECT fairlane_make_partitions((clock_timestamp() AT TIME ZONE 'UTC')::date + day)
FROM generate_series(0, 2) AS day;

RESET ROLE;

-- By the login role, which may grant on alembic_version too.
GRANT SELECT ON tenants, api_keys, deployments, replicas, files, batches, batch_progress TO fairlane_api;
GRANT INSERT, UPDATE ON files, batches TO fairlane_api;
GRANT UPDATE (last_used_at) ON api_keys TO fairlane_api;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO fairlane_engine;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO fairlane_engine;
GRANT SELECT ON alembic_version TO fairlane_api;
