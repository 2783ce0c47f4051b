-- Queued jobs of batches that are being cancelled.
SELECT j.id FROM batches AS b JOIN jobs AS j ON j.batch_id = b.id
WHERE b.status = 'cancelling' AND j.state = 'queued'
LIMIT :chunk FOR UPDATE OF j SKIP LOCKED
