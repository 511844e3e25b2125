# SPDX-License-Identifier: MIT
"""The same workload under several allocator settings, compared.

One direction: a spec (what to run, in which configurations) becomes a plan (in which order), each planned run becomes
samples and a record in the results directory, and the results become an analysis, shown as a table or a page.

    spec ──> plan ──> trial ──> store ──> analysis ──> table, page

Nothing to the right is known to what stands left of it.
"""
