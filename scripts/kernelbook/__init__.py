"""Reads traces, attributes, counts, compares, draws and writes; runs outside the containers, without torch."""
