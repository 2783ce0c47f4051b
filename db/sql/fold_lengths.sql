-- Fold a bounded number of length rows into the histograms. Returns what each lane of each model was
-- served with them: cost, jobs, and how many rows there were.
WITH folded AS (
    DELETE FROM length_deltas
    WHERE id IN (SELECT id FROM length_deltas ORDER BY id LIMIT :chunk FOR UPDATE SKIP LOCKED)
    RETURNING *
), learned AS (
    INSERT INTO output_lengths AS known (tenant_id, model, input_bucket, output_bucket, jobs)
    SELECT tenant_id, model, input_bucket, output_bucket, sum(jobs)
    FROM folded
    GROUP BY tenant_id, model, input_bucket, output_bucket
    ORDER BY tenant_id, model, input_bucket, output_bucket
    ON CONFLICT (tenant_id, model, input_bucket, output_bucket) DO UPDATE
    SET jobs = known.jobs + excluded.jobs
)
SELECT model, lane, sum(cost) AS cost, sum(jobs) AS jobs, count(*) AS deltas
FROM folded GROUP BY model, lane ORDER BY model, lane
