-- End leased jobs with what their worker reports, all in one statement. The row moves from `jobs`
-- to `jobs_done` only under the present fence, so a worker that lost a lease ends nothing and its
-- output is dropped. 'stopped' answers a request to stop and ends as that request said.
-- Returns the ids that ended.
WITH report AS MATERIALIZED (
    SELECT * FROM unnest(
        CAST(:job_ids AS uuid[]), CAST(:fences AS integer[]), CAST(:states AS text[]),
        CAST(:status_codes AS smallint[]), CAST(:error_codes AS text[]),
        CAST(:input_tokens AS integer[]), CAST(:cached_tokens AS integer[]),
        CAST(:output_tokens AS integer[]), CAST(:reasoning_tokens AS integer[]),
        CAST(:started_ms AS integer[]), CAST(:ended_ms AS integer[]),
        CAST(:bodies AS bytea[]), CAST(:segment_ids AS bigint[]), CAST(:lengths AS integer[])
    ) AS report(
        job_id, fence, state, status_code, error_code, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens, started_ms, ended_ms, body, segment_id, byte_length
    )
), ended AS (
    DELETE FROM jobs AS j USING report AS r
    WHERE j.id = r.job_id AND j.fence = r.fence AND j.state IN ('running', 'cancelling')
      AND (r.state <> 'stopped' OR j.state = 'cancelling')
    RETURNING j.*,
        CASE r.state WHEN 'stopped' THEN j.ending ELSE r.state END AS end_state,
        CASE r.state WHEN 'stopped' THEN 'batch_' || j.ending ELSE r.error_code END AS end_code,
        r.status_code, r.input_tokens AS used_input, r.cached_tokens, r.output_tokens AS used_output,
        r.reasoning_tokens, r.started_ms, r.ended_ms, r.body,
        r.segment_id AS result_segment, r.byte_length AS result_length
), stored AS (
    INSERT INTO jobs_done (
        id, finished_on, tenant_id, flow_id, batch_id, line, custom_id, model, endpoint, lane, state, fence,
        attempts, boot_id, status_code, error_code, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens, created_at, claimed_at, started_at, ended_at, finished_at
    )
    SELECT id, (clock_timestamp() AT TIME ZONE 'UTC')::date, tenant_id, flow_id, batch_id, line, custom_id,
           model, endpoint, lane, end_state, fence, attempts + CAST(end_state = 'failed' AS integer), boot_id,
           status_code, end_code, used_input,
           cached_tokens, used_output, reasoning_tokens, created_at, claimed_at,
           claimed_at + started_ms * interval '1 ms', claimed_at + ended_ms * interval '1 ms',
           clock_timestamp()
    FROM ended
    RETURNING id, finished_on
), answered AS (
    INSERT INTO outcomes (job_id, finished_on, tenant_id, body, segment_id, byte_offset, byte_length)
    SELECT e.id, s.finished_on, e.tenant_id, e.body, e.result_segment,
           CASE WHEN e.result_segment IS NOT NULL THEN 0 END, e.result_length
    FROM ended AS e JOIN stored AS s ON s.id = e.id
    WHERE e.status_code IS NOT NULL
), settled AS (
    INSERT INTO account_deltas (job_id, fence, kind, model, lane, tenant_id, flow_id, cost, reserved)
    SELECT id, fence, 'settle', model, lane, tenant_id, flow_id,
           :input_cost * (used_input - cached_tokens - input_tokens)
           + :output_cost * (used_output - output_tokens),
           -(:input_cost * input_tokens + :output_cost * output_tokens)
    FROM ended
), counted AS (
    INSERT INTO batch_progress (
        tenant_id, batch_id, succeeded, unsuccessful, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens
    )
    SELECT tenant_id, batch_id, count(*) FILTER (WHERE end_state = 'succeeded'),
           count(*) FILTER (WHERE end_state <> 'succeeded'), sum(used_input), sum(cached_tokens),
           sum(used_output), sum(reasoning_tokens)
    FROM ended WHERE batch_id IS NOT NULL GROUP BY tenant_id, batch_id
), learned AS (
    -- width_bucket counts the :bounds that a number reaches: its bucket in lanes/lengths.py
    INSERT INTO length_deltas (tenant_id, model, lane, input_bucket, output_bucket, jobs, cost)
    SELECT tenant_id, model, lane, width_bucket(input_tokens, CAST(:bounds AS integer[])),
           width_bucket(used_output, CAST(:bounds AS integer[])), count(*),
           sum(:input_cost * (used_input - cached_tokens) + :output_cost * used_output)
    FROM ended WHERE end_state = 'succeeded' AND used_output > 0
    GROUP BY 1, 2, 3, 4, 5
)
SELECT id FROM ended
