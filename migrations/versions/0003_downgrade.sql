SET LOCAL ROLE fairlane_owner;

DROP FUNCTION fairlane_load(text, smallint, integer, double precision, double precision);
DROP POLICY lane_sums ON jobs;
DROP POLICY lane_sums ON jobs_done;
DROP POLICY lane_sums ON lane_accounts;

REVOKE SELECT ON output_lengths, service_rates, jobs, jobs_done, outcomes, segments, lane_accounts
    FROM fairlane_api;
DROP TABLE admin_keys, idempotency_keys, job_attempts, job_requests;

-- Single jobs have no place in the older schema.
DELETE FROM jobs WHERE batch_id IS NULL;
DROP INDEX jobs_done_tenant, jobs_tenant, jobs_ageing;
CREATE INDEX jobs_ageing ON jobs (created_at) WHERE state = 'queued' AND rank > 0;
ALTER TABLE jobs
    DROP CONSTRAINT jobs_body,
    ALTER COLUMN byte_length SET NOT NULL,
    ALTER COLUMN byte_offset SET NOT NULL,
    ALTER COLUMN segment_id SET NOT NULL;
ALTER TABLE tenants
    DROP COLUMN trust_group, DROP COLUMN queued_tokens, DROP COLUMN concurrency,
    DROP COLUMN tokens_per_minute, DROP COLUMN requests_per_minute, DROP COLUMN lanes;

RESET ROLE;
