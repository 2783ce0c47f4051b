-- A page of a batch's ended jobs by line, with what they answered.
SELECT d.id, d.line, d.custom_id, d.state, d.status_code, d.error_code, o.body, s.object_key,
       o.byte_length, d.input_tokens, d.cached_tokens, d.output_tokens, d.reasoning_tokens
FROM (
    SELECT * FROM jobs_done WHERE batch_id = :batch_id AND line > :after ORDER BY line LIMIT :page
) AS d
LEFT JOIN outcomes AS o ON o.job_id = d.id AND o.finished_on = d.finished_on
LEFT JOIN segments AS s ON s.id = o.segment_id
ORDER BY d.line
