"""The command line: one module per subcommand, each with ``add`` (its options) and ``run``."""
