"""What Python programs use: `kernelbook.read`, `kernelbook.expect` and the pytest fixture.

In: the path of a trace, or a block of code that runs on a GPU. Out: Arrow tables and forwards, or an AssertionError.
The names that `kernelbook` itself offers are stable; docs/reference/python.md describes them.
"""
