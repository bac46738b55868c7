"""The pure core: nothing here does I/O, reads a clock or logs. A contract checked in CI says so."""
