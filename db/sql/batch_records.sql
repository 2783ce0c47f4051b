-- A page of a batch's ended jobs by line, with what they answered. `late` is what the end of the batch's
-- own window stopped, and not a deadline of the line's own before that.
SELECT d.id, d.line, d.custom_id, d.state, d.status_code, d.error_code, o.body, s.object_key,
       o.byte_length, d.input_tokens, d.cached_tokens, d.output_tokens, d.reasoning_tokens,
       d.state = 'expired' AND d.finished_at >= b.expires_at AS late
FROM (
    SELECT * FROM jobs_done WHERE batch_id = :batch_id AND line > :after ORDER BY line LIMIT :page
) AS d
JOIN batches AS b ON b.id = d.batch_id
LEFT JOIN outcomes AS o ON o.job_id = d.id AND o.finished_on = d.finished_on
LEFT JOIN segments AS s ON s.id = o.segment_id
ORDER BY d.line
