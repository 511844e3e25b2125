# SPDX-License-Identifier: MIT
"""The report: one HTML file that says what bloats a process, proves it with tables, and shows it on a map."""
