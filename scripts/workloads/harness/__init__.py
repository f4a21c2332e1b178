"""Measures one case: a supervisor, which needs only the standard library, and the child process it starts (torch)."""
