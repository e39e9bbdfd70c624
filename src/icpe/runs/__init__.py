"""A training run in a folder: its configuration, training, resuming and evaluation."""
