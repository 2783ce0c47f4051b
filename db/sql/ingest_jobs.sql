-- Queues every staged line of a batch, in the order in which its jobs shall run (`ord`): lines whose
-- prompts begin alike stay together, groups in the order of their first lines, lines that share
-- nothing last; inside a group the longest expected answers first, so that the end is not one long
-- answer. Rank and deadline come before all that, in the index that claims read. The rows come out of
-- the window function in that order too, which keeps what is claimed together close on disk.
WITH shared AS (
    SELECT prefix, min(line) AS first_line FROM staged_lines GROUP BY prefix HAVING count(*) > 1
)
INSERT INTO jobs (
    tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line, byte_offset, byte_length,
    input_tokens, output_tokens, lane, rank, model, endpoint, custom_id
)
SELECT
    batches.tenant_id, batches.id, batches.id, placed.segment_id, placed.ord, due.deadline,
    floor(extract(epoch FROM due.deadline) / :bucket_seconds)::integer,
    placed.line, placed.byte_offset, placed.byte_length,
    placed.input_tokens, placed.output_tokens, :lane, placed.rank, placed.model, batches.endpoint,
    placed.custom_id
FROM batches
CROSS JOIN (
    SELECT
        staged_lines.*,
        row_number() OVER (ORDER BY shared.first_line NULLS LAST, output_tokens DESC, line) AS ord
    FROM staged_lines LEFT JOIN shared ON shared.prefix = staged_lines.prefix
) AS placed
CROSS JOIN LATERAL (
    SELECT least(
        batches.expires_at, batches.created_at + make_interval(secs => placed.deadline_seconds)
    ) AS deadline
) AS due
WHERE batches.id = :batch_id
