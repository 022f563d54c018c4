"""The command line: one module per subcommand, each with ``define`` (its options) and ``run``."""
