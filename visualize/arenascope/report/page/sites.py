# SPDX-License-Identifier: MIT
"""The page's part on who allocated what is in use: sentences, functions, flame graph, and the sites of each page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from arenascope.humanize import count, printable, share, size
from arenascope.profiles.call_tree import grow, numbered, place_of
from arenascope.profiles.page_pins import Keeping, narrowest_pinner
from arenascope.profiles.stack_titles import caller_and_callee, is_for_others
from arenascope.report.amounts import Amount, amount
from arenascope.report.map.data import Block, pack
from arenascope.report.map.page_users import LONGEST, cut, put_in_order
from arenascope.wire.profile import GROWN, MEASURES, by_thread, order, rows_of
from arenascope.wire.profile_json import ReadProfile, profile_in, profile_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from arenascope.profiles.call_tree import Call
    from arenascope.wire.dump import Dump
    from arenascope.wire.profile import Profile, Site

# The measures of the chart, in the order in which it offers them: what a number is, and of what.
SHOWN: Final = {
    "inuse_space": ("bytes", "in use"),
    "inuse_objects": ("chunks", "in use"),
    "alloc_space": ("bytes", "allocated since the profile began, freed or not (an estimate)"),
    GROWN: ("bytes", "grown while the profile was made: its part of the sizes that grew"),
    "pinned": ("pages", "kept by one chunk each"),
    "stranded": ("bytes", "stranded: free, on pages that chunks in use keep"),
    "returned": ("bytes", "returned by malloc_trim(0), at least, if the chunks were freed"),
}
MOST_CALLS: Final = 6000
MOST_BY_THREAD: Final = 3000
CALL_LIMIT: Final = 250_000  # bytes of the deflated tree
PLACE_LIMIT: Final = 300_000  # bytes of the deflated sites of pages
ON_PAGE: Final = 8  # sites of a page, at most
MOST_NUMBERS: Final = 65_535
FUNCTIONS: Final = 200
PINS: Final = 24
LEAST: Final = 4096  # stranded bytes, of a stack without pins
SENTENCES: Final = 3
PAIRED: Final = 80  # characters of each of two names
MANY: Final = 16  # pages: what keeps fewer has no sentence
STRING: Final = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"


class Allocators:
    """One dump's profile. `read` is None where the dump has none."""

    def __init__(self, dump: Dump) -> None:
        """Asks arenadump for the names."""
        self.dump: Final = dump
        self.read: Final = profile_in(dump)
        self.profile: Final[Profile | None] = profile_of(self.read) if self.read else None


def shown_name(name: str, longest: int = LONGEST) -> str:
    """A function's name as the page has it."""
    return cut(printable(name).replace(STRING, "std::string"), longest)


def pair_of(names: Iterable[str]) -> str:
    """Who allocated, of a stack's functions, innermost first: the caller and, behind an arrow, what it called."""
    return " → ".join(shown_name(name, PAIRED) for name in caller_and_callee(names)) or "?"


def _by_thread(profile: Profile | None) -> Call | None:
    known = profile and any(site.shares for site in profile.sites)
    return grow(by_thread(profile)) if profile and known else None


class Tree:
    """The calls of the last profile as the chart has them, under numbers that the map has, too."""

    def __init__(self, allocators: Sequence[Allocators]) -> None:
        """`allocators`: of all dumps of the page; the chart shows the last."""
        self.profile: Final = allocators[-1].profile
        self.measures: Final = [m for m in SHOWN if self.profile and self.profile.has(m)]
        self.root: Final[Call | None] = grow(self.profile) if self.profile else None
        self.names: list[str] = []
        self.modules: list[str] = []
        self.languages: list[str] = []
        self.by_thread: Final[Call | None] = _by_thread(self.profile)
        self.left_out = self.left_out_by_thread = 0
        self.block: Final = self._block()
        self._number: Final = {name: number for number, name in enumerate(self.names[: self._called])}

    def _block(self) -> Block:
        most = MOST_CALLS
        while True:
            block = self._packed(most)
            if len(block.data) <= CALL_LIMIT or most <= 1:
                return block
            most = int(most * 0.8)

    def _packed(self, most: int) -> Block:
        kept = numbered(self.root, most, self.measures) if self.root else []
        names: dict[str, int] = {}
        modules: dict[str, int] = {}
        languages: dict[str, int] = {}
        depth, name, module, language = [], [], [], []
        for at, call in kept:
            depth.append(at)
            name.append(names.setdefault(shown_name(call.name), len(names)))
            title = cut(printable(call.module.name)) if call.module else "no module"
            module.append(modules.setdefault(title, len(modules)))
            language.append(languages.setdefault(cut(printable(call.language)), len(languages)))
        self.languages = list(languages)
        columns: list[tuple[str, NDArray[Any]]] = [
            ("depth", np.array(depth, np.uint16)),
            ("name", np.array(name, np.uint16)),
            ("module", np.array(module, np.uint16)),
            ("language", np.array(language, np.uint16)),
        ]
        columns += [
            (measure, np.array([call.values.get(measure, 0) for _, call in kept], np.float64))
            for measure in self.measures
        ]
        self._called = len(names)  # those behind are of threads
        columns += self._threads(most * MOST_BY_THREAD // MOST_CALLS, names, modules)
        self.names, self.modules = list(names), list(modules)
        text = "\n".join([*self.names, *self.modules, *self.languages]).encode("utf-8", "replace")
        columns.append(("text", np.frombuffer(text, np.uint8)))
        if self.root:
            self.left_out = _size(self.root) - len(kept)
        return pack("calls", columns)

    def _threads(self, most: int, names: dict[str, int], modules: dict[str, int]) -> Iterator[tuple[str, NDArray[Any]]]:
        """The same calls below threads, without what is kept on pages: names may be added."""
        measures = [measure for measure in self.measures if measure in MEASURES]
        kept = numbered(self.by_thread, most, measures) if self.by_thread else []
        self.left_out_by_thread = _size(self.by_thread) - len(kept) if self.by_thread else 0
        name = [names.setdefault(shown_name(call.name), len(names)) for _, call in kept]
        titles = (cut(printable(call.module.name)) if call.module else "no module" for _, call in kept)
        yield "thread_depth", np.array([depth for depth, _ in kept], np.uint16)
        yield "thread_name", np.array(name, np.uint16)
        yield "thread_module", np.array([modules.setdefault(title, len(modules)) for title in titles], np.uint16)
        for measure in measures:
            values = [call.values.get(measure, 0) for _, call in kept]
            yield f"thread_{measure}", np.array(values, np.float64)

    def json_data(self) -> dict[str, Any]:
        """What the script must know of it."""
        return {
            "measures": [[measure, *SHOWN[measure]] for measure in self.measures],
            "wholes": [self.root.values.get(measure, 0) if self.root else 0 for measure in self.measures],
            "nameCount": len(self.names),
            "moduleCount": len(self.modules),
            "forOthers": [number for number, name in enumerate(self.names) if is_for_others(name)],
        }

    def light(self, function: str) -> str:
        """What lights up a function's pages; empty: it is not in the chart."""
        number = self._number.get(shown_name(function))
        return "" if number is None else f"function:{number}"

    def light_site(self, site: Site) -> str:
        """What lights up the pages of a stack."""
        number = self._place(site)
        return "" if number < 0 else f"call:{number}"

    def _place(self, site: Site) -> int:
        """The number of the innermost call of a stack that the chart has; -1: it has none."""
        return place_of(self.root, site) if self.root else -1

    def places(self, allocators: Allocators, source: NDArray[np.int64], limit: int = PLACE_LIMIT) -> Block:
        """The calls that allocated what lies on each of malloc's pages; where all do not fit, one of each, or none."""
        dump, profile = allocators.dump, allocators.profile
        numbers = [self._place(site) for site in profile.sites] if profile else []
        # Number 0 is a site that is in no call of the chart.
        known = sorted({number for number in numbers if number >= 0})[:MOST_NUMBERS]
        of_call = {call: index + 1 for index, call in enumerate(known)}
        of_site = np.array([of_call.get(number, 0) for number in numbers], np.uint16)
        places = dump.profile_places
        places = places[np.argsort(places["page"], kind="stable")]
        counts = np.bincount(places["page"], minlength=len(dump.pages)).astype(np.int64)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        on = of_site[places["site"][within < ON_PAGE]] if len(of_site) else np.zeros(0, np.uint16)
        counts = np.minimum(counts, ON_PAGE).astype(np.uint8)
        calls = np.array(known, np.uint32)
        for most in (ON_PAGE, 1, 0):
            first = np.arange(len(on)) - np.repeat(np.cumsum(counts, dtype=np.int64) - counts, counts) < most
            shown, sites = put_in_order(np.minimum(counts, most).astype(np.uint8), on[first], source)
            block = pack("sites", [("count", shown), ("site", sites), ("call", calls)])
            if len(block.data) <= limit or most == 0:
                break
        return block


def _size(root: Call) -> int:
    total, waiting = 0, [root]
    while waiting:
        below = list(waiting.pop().below.values())
        total += len(below)
        waiting += below
    return total


class FunctionLine(NamedTuple):
    """A function, with what it has itself, and with all that it calls."""

    light: str
    name: str
    flat: Amount
    cum: Amount
    allocated: Amount | None
    pinned: int | None
    stranded: Amount


class SiteLine(NamedTuple):
    """Who keeps pages."""

    light: str
    name: str
    whole: Amount
    pinned: int
    pages: int | None
    stranded: Amount
    returned: Amount


class SitesSection(NamedTuple):
    """All that the page says of it."""

    lines: list[str]
    page_pins: list[str]
    functions: list[FunctionLine]
    function_count: int
    estimated: bool
    samples: bool  # what was allocated is known
    keeps: bool  # what sites keep is known
    threads: bool  # which thread allocated is known
    pins: list[SiteLine]
    left_out: int
    left_out_by_thread: int


def section(now: Allocators, tree: Tree) -> SitesSection | None:
    """None: the last dump has no profile."""
    read, profile = now.read, now.profile
    if not read or not profile:
        return None
    functions = _functions(profile, tree)
    return SitesSection(
        lines=list(_known(read)),
        page_pins=list(_page_pins(read, profile)),
        functions=functions[:FUNCTIONS],
        function_count=len(functions),
        estimated=not read.every_page,
        samples=profile.has("alloc_space"),
        keeps=profile.has("pinned"),
        threads=tree.by_thread is not None,
        pins=list(_pins(read, profile, tree)),
        left_out=tree.left_out,
        left_out_by_thread=tree.left_out_by_thread,
    )


def _known(read: ReadProfile) -> Iterator[str]:
    yield f"{size(read.known.bytes)} in use has the call stack that allocated it, by {read.how}."
    if not read.sites:
        yield read.unrecorded
    yield from (words for words, _ in read.remarks())
    if read.growth:
        yield f"{read.growth.words} {read.growth.words_by_type}"


def _page_pins(read: ReadProfile, profile: Profile) -> Iterator[str]:
    """Who keeps most pages, in sentences: pages that nobody else keeps, or where that is not known, pins."""
    whole = profile.total("inuse_space")
    kept: dict[str, list[int]] = {}
    stacks = list(_keeping(read, profile))
    for stack in stacks:
        if stack.pages:
            sums = kept.setdefault(pair_of(stack.names), [0, 0, 0])
            for place, value in enumerate((stack.pages, stack.stranded, stack.bytes)):
                sums[place] += value
    pairs = sorted(kept.items(), key=lambda each: -each[1][0])[:SENTENCES]
    narrowest = narrowest_pinner(stacks)
    if narrowest and pairs and narrowest.pages > pairs[0][1][0]:
        what = f"what {shown_name(narrowest.name, PAIRED)} and its calls allocated"
        yield from _sentence(read, f"At least {count(narrowest.pages)}", what, narrowest[1:], whole)
    for pair, sums in pairs:
        yield from _sentence(read, count(sums[0]), pair, sums, whole)


def _keeping(read: ReadProfile, profile: Profile) -> Iterator[Keeping]:
    for json_data, site in zip(read.sites, profile.sites):
        pages = json_data.pinned.pages if read.every_page else json_data.pinned.pinned
        stranded = json_data.pinned.pages_stranded if read.every_page else 0
        yield Keeping(tuple(site.names()), pages or 0, stranded or 0, json_data.in_use.bytes)


def _sentence(read: ReadProfile, pages_: str, who: str, sums: Sequence[int], whole: int) -> Iterator[str]:
    pages, stranded, bytes_ = sums
    if pages < MANY:
        return
    who = f"{who}, which has {share(bytes_, whole)} of the bytes in use"
    if read.every_page:
        yield f"{pages_} pages are kept by nothing but {who}: {size(stranded)} on them is stranded."
    else:
        yield f"About {count(pages)} pages are kept by single chunks of {who}."


def _functions(profile: Profile, tree: Tree) -> list[FunctionLine]:
    """All functions that have something in use or allocated."""
    by = rows_of(profile.sites, [m for m in ("inuse_space", "alloc_space", "pinned", "stranded") if profile.has(m)])
    whole = profile.total("inuse_space")

    def flat(name: str, measure: str) -> int | None:
        return by[measure][name].flat if measure in by else None

    def allocated(name: str) -> int | None:
        return by["alloc_space"][name].cum if "alloc_space" in by else None

    return [
        FunctionLine(
            light=tree.light(row.name),
            name=shown_name(row.name),
            flat=amount(row.flat, whole),
            cum=amount(row.cum, whole),
            # 0: no sample met it. How much it has allocated is not known.
            allocated=amount(allocated(row.name) or None) if "alloc_space" in by else None,
            pinned=flat(row.name, "pinned"),
            stranded=amount(flat(row.name, "stranded")),
        )
        for row in sorted(by["inuse_space"].values(), key=order)
        if row.cum or allocated(row.name)
    ]


def _pins(read: ReadProfile, profile: Profile, tree: Tree) -> Iterator[SiteLine]:
    """The stacks that keep most: pins first, then stranded bytes."""
    if not profile.has("pinned"):
        return
    whole = profile.total("inuse_space")
    order = sorted(
        range(len(read.sites)),
        key=lambda at: (-(read.sites[at].pinned.pinned or 0), -(read.sites[at].pinned.stranded or 0)),
    )
    for index in order[:PINS]:
        json_data, site = read.sites[index], profile.sites[index]
        if not json_data.pinned.pinned and (json_data.pinned.stranded or 0) < LEAST:
            continue
        yield SiteLine(
            light=tree.light_site(site),
            name=pair_of(site.names()),
            whole=amount(json_data.in_use.bytes, whole),
            pinned=json_data.pinned.pinned or 0,
            pages=json_data.pinned.pages,
            stranded=amount(json_data.pinned.stranded),
            returned=amount(json_data.pinned.returned),
        )
