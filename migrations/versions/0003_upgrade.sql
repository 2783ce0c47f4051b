SET LOCAL ROLE fairlane_owner;

-- What a tenant may use. NULL: no limit. RPM, TPM and concurrency bind P0 and P1, queued tokens P2.
-- `trust_group`: tenants of one group may share a prefix cache; NULL: this tenant alone.
ALTER TABLE tenants
    ADD COLUMN lanes smallint[] NOT NULL DEFAULT '{0,1,2}' CHECK (
        cardinality(lanes) > 0 AND lanes <@ ARRAY[0, 1, 2]::smallint[]),
    ADD COLUMN requests_per_minute integer CHECK (requests_per_minute > 0),
    ADD COLUMN tokens_per_minute bigint CHECK (tokens_per_minute > 0),
    ADD COLUMN concurrency integer CHECK (concurrency > 0),
    ADD COLUMN queued_tokens bigint CHECK (queued_tokens > 0),
    ADD COLUMN trust_group text CHECK (trust_group <> '');

-- The body of a batch line lies in a segment, that of a single job in `job_requests`.
ALTER TABLE jobs
    ALTER COLUMN segment_id DROP NOT NULL,
    ALTER COLUMN byte_offset DROP NOT NULL,
    ALTER COLUMN byte_length DROP NOT NULL,
    ADD CONSTRAINT jobs_body CHECK (
        num_nonnulls(segment_id, byte_offset, byte_length) = CASE WHEN batch_id IS NULL THEN 0 ELSE 3 END);
-- Single jobs keep coming: they age whatever their rank, up to one that no client may set.
DROP INDEX jobs_ageing;
CREATE INDEX jobs_ageing ON jobs (created_at)
    WHERE state = 'queued' AND rank > CASE WHEN batch_id IS NULL THEN -32768 ELSE 0 END;
CREATE INDEX jobs_tenant ON jobs (tenant_id, id);
CREATE INDEX jobs_done_tenant ON jobs_done (tenant_id, id);

-- What the client of a single job asked for, kept beside the job while it lives and after it ended,
-- until retention erases it. `body` goes first.
CREATE TABLE job_requests (
    job_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,                         -- the API key that sent it: its flow
    kind text NOT NULL CHECK (kind IN ('job', 'response')),
    body bytea,
    metadata jsonb,
    deadline timestamptz NOT NULL,
    decision jsonb NOT NULL,                      -- what admission saw and said, with the policy's version
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at timestamptz                        -- the client deleted it: nobody is shown it any more
);
CREATE INDEX job_requests_created ON job_requests (created_at);

-- Attempts that ended without ending their job. The last attempt is the row of `jobs_done`.
CREATE TABLE job_attempts (
    job_id uuid NOT NULL,
    fence integer NOT NULL,
    tenant_id uuid NOT NULL,
    boot_id uuid NOT NULL,
    claimed_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason text NOT NULL,                         -- lanes.failure's code, or 'rescued'
    PRIMARY KEY (job_id, fence)
);
CREATE INDEX job_attempts_ended ON job_attempts (ended_at);

-- One key of a tenant and endpoint is one object, whatever becomes of the object's own rows.
CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    endpoint text NOT NULL,
    key_hash bytea NOT NULL CHECK (octet_length(key_hash) = 32),
    request_digest bytea NOT NULL CHECK (octet_length(request_digest) = 32),
    object_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, endpoint, key_hash)
);
CREATE INDEX idempotency_keys_expiring ON idempotency_keys (expires_at);

-- Keys of operators, for /admin/v1. No tenant: they belong to the installation.
CREATE TABLE admin_keys (
    id uuid PRIMARY KEY DEFAULT uuidv7(),
    short_token text NOT NULL UNIQUE,
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['job_requests', 'job_attempts', 'idempotency_keys'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON %I USING (tenant_id = fairlane_tenant())'
            ' WITH CHECK (tenant_id = fairlane_tenant())', name);
    END LOOP;
END
$$;

-- What stands before a new request in a lane, of all tenants together, as numbers only: the api may ask,
-- and sees no row of others. The owner's policies are for this function alone. It looks at the first
-- `look` queued jobs and at the last 256 that ended, however many there are. A longer queue is taken to
-- end there: what is foretold of it is too short, and nobody is turned away for what was not seen.
CREATE POLICY lane_sums ON jobs FOR SELECT TO fairlane_owner USING (true);
CREATE POLICY lane_sums ON jobs_done FOR SELECT TO fairlane_owner USING (true);
CREATE POLICY lane_sums ON lane_accounts FOR SELECT TO fairlane_owner USING (true);
CREATE FUNCTION fairlane_load(
    of_model text, of_lane smallint, look integer, input_cost double precision, output_cost double precision
) RETURNS TABLE (
    single_jobs bigint, queued_cost double precision, oldest_seconds double precision,
    weights double precision, seat_rate double precision
)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    AS $$
WITH seen AS MATERIALIZED (
    SELECT tenant_id, batch_id, created_at, input_cost * input_tokens + output_cost * output_tokens AS cost
    FROM jobs
    WHERE model = of_model AND lane = of_lane
        AND state = 'queued' AND not_before IS NULL AND suspects IS NULL
    ORDER BY tenant_id, flow_id, rank, bucket, ord
    LIMIT look
), ended AS (
    SELECT model, lane, state, started_at, ended_at,
           input_cost * (input_tokens - cached_tokens) + output_cost * output_tokens AS cost
    FROM jobs_done
    ORDER BY id DESC
    LIMIT 256
)
SELECT
    count(*) FILTER (WHERE batch_id IS NULL),
    coalesce(sum(cost), 0),
    coalesce(CAST(extract(epoch FROM clock_timestamp() - min(created_at)) AS double precision), 0),
    coalesce((
        SELECT sum(weight) FROM lane_accounts
        WHERE model = of_model AND lane = of_lane AND flow_id = '00000000-0000-0000-0000-000000000000'
            AND tenant_id IN (SELECT tenant_id FROM seen)), 0),
    coalesce((
        SELECT sum(cost) / nullif(CAST(extract(epoch FROM sum(ended_at - started_at)) AS double precision), 0)
        FROM ended
        WHERE model = of_model AND lane = of_lane AND state = 'succeeded'), 0)
FROM seen
$$;
REVOKE ALL ON FUNCTION fairlane_load(text, smallint, integer, double precision, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fairlane_load(text, smallint, integer, double precision, double precision)
    TO fairlane_api, fairlane_engine;

GRANT SELECT, INSERT, UPDATE, DELETE ON job_requests, job_attempts, idempotency_keys, admin_keys
    TO fairlane_engine;
GRANT SELECT ON job_attempts, output_lengths, service_rates, jobs, jobs_done, outcomes, segments,
    lane_accounts TO fairlane_api;
GRANT SELECT, INSERT, UPDATE ON job_requests, idempotency_keys TO fairlane_api;

RESET ROLE;
