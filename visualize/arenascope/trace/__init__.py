# SPDX-License-Identifier: MIT
"""The full record of a process: every malloc and free."""
