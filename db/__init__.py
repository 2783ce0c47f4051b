"""Everything that outlives a process: tables, object storage, Redis, the embedded servers."""
