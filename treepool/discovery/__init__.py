"""Hardware to RFC 49: what a machine has, read from hwloc XML, vendor tools or sysfs."""
