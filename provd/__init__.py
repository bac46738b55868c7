"""provd: asks of a memory not how old it is, but whether what it rests on was changed since."""

__version__ = "0.1.0"
