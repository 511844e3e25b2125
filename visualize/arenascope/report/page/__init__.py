# SPDX-License-Identifier: MIT
"""The page: its sections as values for templates, and the file that they become."""
