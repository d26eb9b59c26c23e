"""The commands of the CLI, one module each: `add_arguments(parser)` and `run(args) -> exit code`.

Rules: what was asked for goes to stdout, everything else to stderr; every report has `--json`; a user's mistake is one
clear line and exit code 2.
"""
