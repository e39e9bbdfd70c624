"""How runs are executed: in this process or in worker processes."""
