"""A job's verbs, one a file. Each ends in one statement filtered on where the job must stand."""
