-- Ask the workers to stop what must not go on: jobs of batches being cancelled, jobs past their
-- deadline. They learn it with their next heartbeat and answer with a fenced outcome.
UPDATE jobs AS j SET state = 'cancelling', ending = why.ending
FROM (
    SELECT id, 'expired' AS ending FROM jobs
    WHERE boot_id IS NOT NULL AND state = 'running' AND deadline <= clock_timestamp()
    UNION
    SELECT id, 'cancelled' FROM jobs
    WHERE boot_id IS NOT NULL AND state = 'running'
      AND batch_id IN (SELECT id FROM batches WHERE status = 'cancelling')
) AS why
WHERE j.id = why.id AND j.state = 'running'
