"""Measures one case: a supervisor (standard library alone) and the child process it starts (torch)."""
