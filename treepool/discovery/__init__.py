"""From hardware to RFC 49: what a machine has, as hwloc and vendor tools report it."""
