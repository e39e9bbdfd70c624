"""Readers of log files: each turns a file format into a table of raw columns."""
