-- Names an input segment before its object is written, so that no object is ever unknown.
-- Returns its id; no row when the validation was lost.
INSERT INTO segments (tenant_id, batch_id, kind, object_key, bytes)
SELECT tenant_id, id, 'input', :object_key, :bytes
FROM batches
WHERE id = :batch_id AND fence = :fence AND status = 'validating'
RETURNING id
