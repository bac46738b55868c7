"""The only reader of workspace bytes: files, sets of files, what is left out of them, and the threads that read."""

from provd.disk.files import signature
from provd.disk.ignore import IgnoreRules
from provd.disk.job import ReadingJob, read_now
from provd.disk.lease import ignore_lease_breaks
from provd.disk.looking import Directory, RealPaths, real_directory, signature_of
from provd.disk.mounts import MountTable, MountWatch
from provd.disk.near import is_near
from provd.disk.resting import Rest, RestLooker, base_of, come_after
from provd.disk.seals import Sealer, Seals, SetSeal
from provd.disk.single import read_single
from provd.disk.way import Route, route_of
from provd.disk.workers import Workers
from provd.filesystems import is_network

__all__ = [
    "Directory",
    "IgnoreRules",
    "MountTable",
    "MountWatch",
    "ReadingJob",
    "RealPaths",
    "Rest",
    "RestLooker",
    "Route",
    "Sealer",
    "Seals",
    "SetSeal",
    "Workers",
    "base_of",
    "come_after",
    "ignore_lease_breaks",
    "is_near",
    "is_network",
    "read_now",
    "read_single",
    "real_directory",
    "route_of",
    "signature",
    "signature_of",
]
