"""Where handlers run. An executor takes a run and puts its outcome into the results, whatever happens."""
