# SPDX-License-Identifier: MIT
"""What processes hold, for Prometheus: snapshots in turn, and a page that shows the last of them (docs/live.md)."""
