-- Of the lines with one custom_id the first stays; the later ones become errors that name both.
WITH firsts AS (
    SELECT custom_id, min(line) AS line
    FROM staged_lines
    GROUP BY custom_id
    HAVING count(*) > 1
), later AS (
    DELETE FROM staged_lines USING firsts
    WHERE staged_lines.custom_id = firsts.custom_id AND staged_lines.line > firsts.line
    RETURNING staged_lines.line, staged_lines.custom_id, firsts.line AS first_line
)
INSERT INTO staged_errors (line, custom_id, code, error)
SELECT line, custom_id, 'duplicate_custom_id', json_build_object(
    'code', 'duplicate_custom_id',
    'message', format(
        'custom_id "%s" of line %s is already that of line %s. Give every line its own.',
        CASE WHEN length(custom_id) <= 64 THEN custom_id ELSE left(custom_id, 61) || '...' END,
        line, first_line),
    'param', 'custom_id',
    'line', line)::text
FROM later
