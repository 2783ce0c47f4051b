-- Queued jobs whose deadline has passed.
SELECT id FROM jobs WHERE deadline <= clock_timestamp() AND state = 'queued'
ORDER BY deadline LIMIT :chunk FOR UPDATE SKIP LOCKED
