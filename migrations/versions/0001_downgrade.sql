-- The roles stay: other databases of the cluster may use them.
DROP TABLE turnstiles, account_deltas, lane_accounts, outcomes, jobs_done, jobs, segments,
    batch_progress, batches, files, replicas, deployments, api_keys, tenants;
DROP FUNCTION fairlane_make_partitions(date);
DROP FUNCTION fairlane_tenant();
