"""What operators do: verbs over selections, checked, recorded and reported."""
