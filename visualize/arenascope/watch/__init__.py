# SPDX-License-Identifier: MIT
"""Polling a group of processes: who belongs to it, when it is inspected, and what starts a dump."""
