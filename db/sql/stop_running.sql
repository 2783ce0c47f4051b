-- Ask the workers to stop what must not go on: jobs of batches being cancelled, jobs past their
-- deadline. They learn it with their next heartbeat and answer with a fenced outcome. A job that is both
-- ends as cancelled: so does its batch, whenever the sweep happens to come.
UPDATE jobs AS j SET state = 'cancelling', ending = why.ending
FROM (
    SELECT held.id, CASE WHEN b.id IS NULL THEN 'expired' ELSE 'cancelled' END AS ending
    FROM jobs AS held LEFT JOIN batches AS b ON b.id = held.batch_id AND b.status = 'cancelling'
    WHERE held.boot_id IS NOT NULL AND held.state = 'running'
      AND (b.id IS NOT NULL OR held.deadline <= clock_timestamp())
) AS why
WHERE j.id = why.id AND j.state = 'running'
