# SPDX-License-Identifier: MIT
"""A live view of the machine, or of one process, at a bounded cost (docs/live.md)."""
