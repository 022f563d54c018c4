"""Hardware to RFC 49: what a machine has, read from hwloc and vendor tools."""
