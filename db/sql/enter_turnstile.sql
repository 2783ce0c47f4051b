-- Wait for the turnstile of a lane, and tell how fast the lane is served. No row: nothing was ever
-- queued in it.
--
-- The settings hold to the end of the transaction. Whatever the statistics say, a claim touches few rows of
-- large tables, each by its key and in the order of an index: with a hash join, a merge join or a sort it
-- would read far more.
SELECT
    coalesce(
        (SELECT cost / nullif(seconds, 0) FROM service_rates WHERE model = :model AND lane = :lane), 0
    ) AS cost_per_second,
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true),
    set_config('enable_seqscan', 'off', true),
    set_config('enable_sort', 'off', true)
FROM turnstiles
WHERE model = :model AND lane = :lane
FOR UPDATE OF turnstiles
