# SPDX-License-Identifier: MIT
"""Many snapshots of a group of processes, kept in one file (docs/over-time.md)."""
