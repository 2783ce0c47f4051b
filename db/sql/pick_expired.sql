-- Queued jobs whose deadline has passed. A stable time, as only that can bound the index scan.
SELECT id FROM jobs WHERE deadline <= statement_timestamp() AND state = 'queued'
ORDER BY deadline LIMIT :chunk FOR UPDATE SKIP LOCKED
