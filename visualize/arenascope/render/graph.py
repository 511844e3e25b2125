# SPDX-License-Identifier: MIT
"""Types, leaks, owners and the way to a chunk, in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Final

from rich.table import Table
from rich.text import Text

from arenascope.humanize import count, plural, printable, size
from arenascope.render.group import Group
from arenascope.wire.graph import Leaks, Owners, Types, Why, not_searched_words, unfound_words
from arenascope.wire.graph_parts import Sum, owner_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from arenascope.wire.graph_parts import Several

SHOWN_TYPES: Final = 20
SHOWN_SUMS: Final = 30
SHOWN_LEADING: Final = 8
SHOWN_SHARE: Final = 200  # what retains less than one part in so many is not shown
DEEPEST: Final = 6
NO_TYPE: Final = "type not known"
COLLECTOR_OFF: Final = {
    "cpython": "Python's collector is switched off (gc.disable): garbage in cycles stays until gc.collect().",
    "ruby": "Ruby's collector is switched off (GC.disable): garbage stays until GC.start.",
}


def _head(facts: Leaks | Owners | Types | Why) -> Text:
    graph, target = facts.graph, facts.target
    whose = printable(target.comm) + (f" (pid {target.pid})" if target.pid else "")
    left = "" if isinstance(facts, Why) else not_searched_words(facts)
    line = Text()
    if left:
        may = "may be" if not isinstance(facts, Why) and facts.not_searched.bytes is None else "is"
        line.append(f"Not searched: {left}. This {may} the larger part; what follows leaves it out.\n", "bold yellow")
    unfound = "" if isinstance(facts, Why) else unfound_words(facts)
    if unfound:
        said = f"The objects of {unfound} were not found: what follows has chunks of malloc. "
        line.append(f"{said}The warnings of summary say more.\n", "yellow")
    line.append(whose, "bold")
    objects = f" ({size(graph.objects.bytes)} in {count(graph.objects.count)} objects)" if graph.objects.count else ""
    if graph.mappings.count:
        mappings = plural(graph.mappings.count, "anonymous mapping")
        objects += f" ({size(graph.mappings.bytes)} resident in {mappings})"
    line.append(
        f": {count(graph.chunks)} chunks in use, {size(graph.bytes)}{objects}, {count(graph.pointers)} pointers",
        "default",
    )
    if graph.collector_off in COLLECTOR_OFF:
        line.append(f"\n{COLLECTOR_OFF[graph.collector_off]}")
    if not facts.exact:
        line.append(f"\nThis is not exact: {'; '.join(_inexact(facts))}.", style="yellow")
    return line


def _inexact(facts: Leaks | Owners | Types | Why) -> Iterator[str]:
    """Why an answer is not exact: always a reason."""
    graph = facts.graph
    known = {
        f"{size(graph.unread)} could not be read": graph.unread,
        f"{size(graph.unsearched)} of shared memory were not searched": graph.unsearched,
        "the process ran on while it was read": facts.mode == "live",
    }
    said = [why for why, there in known.items() if there] or [printable(words).rstrip(".") for words in facts.warnings]
    yield from said or ["shared memory, or memory that no child inherits, was read while the process ran on"]


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title.lstrip(">"), justify="right" if title.startswith(">") else "left", overflow="fold")
    return table


def render_leaks(facts: Leaks) -> Group:
    """The sums, and the largest kinds of lost chunks."""
    sums = _table("", ">chunks", ">bytes")
    first, more = facts.in_cycles
    rows = [
        ("lost: nothing points to them", _less(facts.direct, first)),
        ("lost with them: only lost chunks do", _less(facts.indirect, more)),
        ("lost in a cycle: they point to each other", Sum(first.count + more.count, first.bytes + more.bytes)),
        ("suspects: only one word of a stack does", facts.suspects),
    ]
    if facts.garbage:
        rows.append(("not lost: garbage not yet collected, or held in an unknown way", facts.garbage))
    for words, held in rows:
        sums.add_row(words, count(held.count), size(held.bytes))
    parts: list[RenderableType] = [_head(facts), "", sums]
    if facts.by_type:
        parts += ["", _leak_kinds(facts)]
    if len(facts.by_type) > SHOWN_TYPES:
        parts.append(f"and {plural(len(facts.by_type) - SHOWN_TYPES, 'more kind')} (--json lists all)")
    return Group(*parts)


def _less(held: Sum, part: Sum) -> Sum:
    return Sum(held.count - part.count, held.bytes - part.bytes)


def _leak_kinds(facts: Leaks) -> Table:
    table = _table(">chunks", ">bytes", ">each", "example", "type", "")
    for group in facts.by_type[:SHOWN_TYPES]:
        every = (group.direct, group.indirect, group.suspects)
        lost = group.direct.count + group.indirect.count
        remark = "" if group.direct.count else "lost with others" if lost else "suspects"
        remark = "lost in a cycle" if lost and group.in_cycles == lost else remark
        table.add_row(
            count(sum(each.count for each in every)),
            size(sum(each.bytes for each in every)),
            size(group.size) if group.size else "various",
            group.example,
            printable(group.type) if group.type else Text(NO_TYPE, style="bright_black"),
            Text(remark, style="bright_black"),
        )
    return table


def render_types(facts: Types) -> Group:
    """The types that take most, and how much has none."""
    table = _table(">chunks", ">bytes", ">share", "example", "type", "evidence")
    for each in facts.types[:SHOWN_SUMS]:
        name = "other types" if each.others else printable(each.type) if each.type else NO_TYPE
        table.add_row(
            count(each.count),
            size(each.bytes),
            f"{each.bytes / facts.graph.bytes:.1%}" if facts.graph.bytes else "",
            each.example or "",
            Text(name, style="" if each.type else "bright_black"),
            Text(each.evidence or "", style="bright_black"),
        )
    parts: list[RenderableType] = [_head(facts), "", table]
    if len(facts.types) > SHOWN_SUMS:
        parts.append(f"and {plural(len(facts.types) - SHOWN_SUMS, 'more type')} (--json lists all)")
    return Group(*parts)


def render_owners(facts: Owners) -> Group:
    """The tree, as far as it explains much."""
    table = _table(">retained", ">own", ">chunks", "example", "held by")
    hidden = DEEPEST + 1  # below a branch that is not shown, nothing is
    for branch in facts.branches:
        if branch.depth > hidden:
            continue
        hidden = DEEPEST
        if branch.depth > DEEPEST or branch.retained < facts.reached / SHOWN_SHARE:
            hidden = branch.depth
            continue
        name = Text("  " * branch.depth)
        if branch.owner:
            name.append(owner_words(branch.owner), style="bold")
        else:
            name.append(printable(branch.type) if branch.type else NO_TYPE, style="" if branch.type else "bright_black")
        own = "" if branch.owner else size(branch.bytes)
        table.add_row(
            size(branch.retained), own, "" if branch.owner else count(branch.count), branch.example or "", name
        )
    parts: list[RenderableType] = [_head(facts), "", table]
    if facts.unreached:
        parts.append(f"{size(facts.unreached)} is lost: nothing, or only lost chunks point to it (arenascope leaks).")
    if facts.several.bytes > facts.reached / SHOWN_SHARE:
        parts += ["", *_several(facts.several)]
    return Group(*parts)


def _several(several: Several) -> Iterator[RenderableType]:
    """Who leads to what several owners have together."""
    yield f"{size(several.bytes)} has several owners. It stays while one of them leads to it:"
    table = _table(">leads to", "owner")
    for leading in several.leading[:SHOWN_LEADING]:
        table.add_row(size(leading.bytes), owner_words(leading.owner))
    yield table
    more = several.owners - min(len(several.leading), SHOWN_LEADING)
    if more:
        yield f"and {plural(more, 'more owner')} (--json lists those that lead to most)"


UNREACHED: Final = {
    "lost": "Lost: nothing points to it",
    "lost_with_others": "Lost with others: only lost chunks point to it",
    "lost_in_a_cycle": "Lost in a cycle: only chunks that point to each other lead to it",
    "garbage": "Not lost: garbage not yet collected, or held in an unknown way",
}


def render_why(facts: Why) -> Group:
    """The way, chunk by chunk."""
    return Group(_head(facts), "", *_way(facts))


def _way(facts: Why) -> Iterator[Text]:
    if facts.owner:
        yield Text(owner_words(facts.owner), style="bold")
    else:
        yield Text(f"{UNREACHED[facts.unreached or 'lost']}.", style="bold")
    for step in facts.path:
        name = printable(step.type) if step.type else NO_TYPE
        yield Text(f"→ {step.address}  {size(step.size)}  {name}")
        if step.offset is not None:
            yield Text(f"    its word at +{step.offset} points to +{step.leads_to} of", style="bright_black")


RENDER: Final[dict[type, Callable[[Any], RenderableType]]] = {
    Leaks: render_leaks,
    Owners: render_owners,
    Types: render_types,
    Why: render_why,
}
