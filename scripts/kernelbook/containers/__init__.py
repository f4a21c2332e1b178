"""Container images, and commands that run inside them with Apptainer or Singularity.

In: `image:` of a run. Out: a local image with its digest, what it holds (probe), and the command line and environment
that start a measurement in it.
"""
