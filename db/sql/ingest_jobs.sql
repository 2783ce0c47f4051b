-- Queues every staged line of a batch in file order.
INSERT INTO jobs (
    tenant_id, flow_id, batch_id, segment_id, ord, deadline, bucket, line, byte_offset, byte_length,
    input_tokens, output_tokens, lane, model, endpoint, custom_id
)
SELECT
    batches.tenant_id, batches.id, batches.id, staged_lines.segment_id, staged_lines.line, batches.expires_at,
    floor(extract(epoch FROM batches.expires_at) / :bucket_seconds)::integer,
    staged_lines.line, staged_lines.byte_offset, staged_lines.byte_length,
    staged_lines.input_tokens, staged_lines.output_tokens, :lane, staged_lines.model, batches.endpoint,
    staged_lines.custom_id
FROM staged_lines, batches
WHERE batches.id = :batch_id
ORDER BY staged_lines.line
