# SPDX-License-Identifier: MIT
"""Many looks at a group of processes, kept in one file (docs/timeline.md)."""
