# SPDX-License-Identifier: MIT
"""Two snapshots beside each other: what grew, what is new, what went. Page, terminal and JSON have it from here."""

from arenascope.compare.changes import Comparison, Delta, Growing, compare, difference
from arenascope.compare.diff_json import SCHEMA, to_json
from arenascope.compare.digest import Digest, digest_of

__all__ = ["SCHEMA", "Comparison", "Delta", "Digest", "Growing", "compare", "difference", "digest_of", "to_json"]
