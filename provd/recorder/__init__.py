"""The only writer: commands become records, entries, actions and roots.

Rule: everything that changes state goes through one of these, as a command of the store, and is answered when
it is durable. Nothing here answers questions.
"""

from provd.recorder.actions import Actions
from provd.recorder.entries import Entries
from provd.recorder.roots import Roots

__all__ = ["Actions", "Entries", "Roots"]
