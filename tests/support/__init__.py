"""What the tests stand on: a real PostgreSQL, builders of jobs, real processes, observed locks."""
