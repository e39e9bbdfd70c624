"""Search for settings with the same number of trials for every method."""
