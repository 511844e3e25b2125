# SPDX-License-Identifier: MIT
"""What people look at: one file per medium."""
