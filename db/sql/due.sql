-- What maintenance has to do now, each answer by an index probe: this is asked every two seconds.
-- statement_timestamp() and not clock_timestamp(): only a stable function can bound an index scan.
SELECT
    (
        EXISTS (SELECT FROM replicas WHERE stopped_at IS NULL AND lease_until < statement_timestamp())
        OR EXISTS (
            SELECT FROM jobs AS j LEFT JOIN replicas AS r ON r.boot_id = j.boot_id
            WHERE j.boot_id IS NOT NULL AND (r.boot_id IS NULL OR r.stopped_at IS NOT NULL)
        )
        OR EXISTS (SELECT FROM jobs WHERE deadline <= statement_timestamp() AND state <> 'cancelling')
        OR EXISTS (
            SELECT FROM batches AS b
            WHERE b.status = 'cancelling'
              AND EXISTS (SELECT FROM jobs WHERE batch_id = b.id AND state <> 'cancelling')
        )
        OR EXISTS (SELECT FROM jobs WHERE not_before <= statement_timestamp())
        OR EXISTS (
            SELECT FROM jobs
            WHERE state = 'queued' AND rank > CASE WHEN batch_id IS NULL THEN -32768 ELSE 0 END
              AND created_at <= statement_timestamp() - make_interval(secs => :age_seconds)
        )
        OR EXISTS (SELECT FROM batch_progress OFFSET :progress_rows)
    ) AS sweep,
    EXISTS (
        SELECT FROM batches AS b
        WHERE b.status IN ('in_progress', 'finalizing', 'cancelling')
          AND (b.lease_until IS NULL OR b.lease_until < statement_timestamp())
          AND NOT EXISTS (SELECT FROM jobs WHERE batch_id = b.id)
    ) AS finalise,
    EXISTS (
        SELECT FROM batches
        WHERE status = 'validating' AND (lease_until IS NULL OR lease_until < statement_timestamp())
    ) AS ingest
