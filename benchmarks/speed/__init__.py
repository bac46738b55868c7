"""The rows of `benchmarks/run`: what provd must reach, each against a peer or the bare system calls in the same run."""
