"""Container images, and commands that run inside them with Apptainer or Singularity.

In: `container:` of a run. Out: a local image with its digest, the versions in it (probe), and the command line and
environment that start a measurement in it.
"""
