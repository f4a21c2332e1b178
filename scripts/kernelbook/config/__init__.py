"""config.yaml, checked and typed.

In: the mapping from YAML and the command line, and where each part was written. Out: a `Config`, or a `ConfigError`
that lists all mistakes with file, key and remedy.
"""
