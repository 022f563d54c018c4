"""From hardware, vendors' tools and site files to an RFC 49 key; and what of a node a task has."""
