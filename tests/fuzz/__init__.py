"""A mutation fuzzer for everything that icpe reads: ``mutations`` damage files, ``targets`` are the readers."""
