"""The complexity router, scored on labelled outcomes: `tiergate route-eval`."""
