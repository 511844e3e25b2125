# SPDX-License-Identifier: MIT
"""What people see: one file per medium."""
