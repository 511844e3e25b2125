# SPDX-License-Identifier: MIT
"""Two looks beside each other: what grew, what is new, what went. Page, terminal and JSON have it from here."""

from arenascope.compare.changes import Comparison, Delta, Growing, compare, difference
from arenascope.compare.diff_json import SCHEMA, told
from arenascope.compare.digest import Moment, moment_of

__all__ = ["SCHEMA", "Comparison", "Delta", "Growing", "Moment", "compare", "difference", "moment_of", "told"]
