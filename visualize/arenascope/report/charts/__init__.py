# SPDX-License-Identifier: MIT
"""Charts: distributions of sizes, and areas over time."""
