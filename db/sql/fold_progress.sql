-- Fold a bounded number of progress rows into their batches. Readers add what is not folded yet.
WITH folded AS (
    DELETE FROM batch_progress
    WHERE id IN (SELECT id FROM batch_progress ORDER BY id LIMIT :chunk FOR UPDATE SKIP LOCKED)
    RETURNING *
), sums AS (
    SELECT batch_id, sum(succeeded) AS succeeded, sum(unsuccessful) AS unsuccessful,
           sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens,
           sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens
    FROM folded GROUP BY batch_id
), added AS (
    UPDATE batches AS b SET
        succeeded = b.succeeded + s.succeeded, unsuccessful = b.unsuccessful + s.unsuccessful,
        input_tokens = b.input_tokens + s.input_tokens, cached_tokens = b.cached_tokens + s.cached_tokens,
        output_tokens = b.output_tokens + s.output_tokens,
        reasoning_tokens = b.reasoning_tokens + s.reasoning_tokens
    FROM sums AS s
    -- an ended batch has its exact counts already
    WHERE b.id = s.batch_id AND b.status NOT IN ('completed', 'expired', 'cancelled')
)
SELECT count(*) FROM folded
