# SPDX-License-Identifier: MIT
"""What the modules of a Python package import of each other, by their text: in functions, and for types alone, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

Sources = dict[str, str]  # the text of each module, by its name with dots; a package's __init__ has the package's name


def sources(folder: Path) -> Sources:
    """The modules of a package. A folder without __init__.py is none of it: it has programs of its own."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if all((parent / "__init__.py").exists() for parent in path.parents if folder in (parent, *parent.parents)):
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


@cache
def parsed(text: str) -> ast.Module:
    """A module's syntax tree: to make it takes most of the time here."""
    return ast.parse(text)


def imported(module: str, text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The modules of the same package that a module imports, however it names them."""
    package = module if any(name.startswith(f"{module}.") for name in modules) else module.rpartition(".")[0]
    for node in ast.walk(parsed(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            inner = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in modules else base for name in inner]
        yield from (name for name in names if name in modules and name != module)


def arrows(modules: Sources) -> dict[str, set[str]]:
    """Which modules each module imports."""
    return {name: set(imported(name, text, modules)) for name, text in modules.items()}


def rooms(modules: Sources) -> dict[str, str]:
    """The room of each module: its folder. In a folder with folders of its own, each module is a room for itself."""
    packages = {name.rpartition(".")[0] for name in modules}
    having = {package.rpartition(".")[0] for package in packages}
    made = {}
    for name in modules:
        folder = name if name in packages else name.rpartition(".")[0]
        made[name] = name if folder in having else folder
    return made


def between_rooms(modules: Sources) -> dict[str, set[str]]:
    """Which rooms the modules of each room import."""
    room = rooms(modules)
    made: dict[str, set[str]] = {each: set() for each in room.values()}
    for name, others in arrows(modules).items():
        made[room[name]] |= {room[other] for other in others} - {room[name]}
    return made


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The circles: sets of which each leads to all others. Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in order:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


STARTING = re.compile("exec|spawn|posix_spawn|fork|system|popen")  # functions of module os that start a program


def starts_programs(text: str) -> bool:
    """Whether a module can start a program: by subprocess, or by a function of os."""
    for node in ast.walk(parsed(text)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if {"subprocess", "multiprocessing", "pty"} & {name.partition(".")[0] for name in names}:
            return True
    return any(module == "os" and STARTING.match(name) for module, name in attributes(text))


def attributes(text: str) -> set[tuple[str, str]]:
    """The pairs a, b for which a module has a.b."""
    found = (node for node in ast.walk(parsed(text)) if isinstance(node, ast.Attribute))
    return {(node.value.id, node.attr) for node in found if isinstance(node.value, ast.Name)}


Definition = tuple[str, str]  # a function or a class at the top of a module: the module, its name


def _imports(nodes: Iterable[ast.AST], names: Collection[str]) -> Iterator[tuple[str, Definition]]:
    """What names mean by imports. A whole module has an empty name."""
    for node in (each for top in nodes for each in ast.walk(top)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield alias.asname or alias.name, (whole, "") if whole in names else (node.module, alias.name)


def _used(node: ast.AST, meant: Mapping[str, Definition]) -> Iterator[Definition]:
    """The definitions that a part of a module names."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in meant:
            yield meant[each.id]
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            yield meant.get(each.value.id, (each.value.id, ""))[0], each.attr


def _starts(one: Definition) -> bool:
    return one[0] == "subprocess" or (one[0] == "os" and bool(STARTING.match(one[1])))


@cache
def _uses(module: str, text: str, names: frozenset[str]) -> dict[Definition, set[Definition]]:
    """Which definitions each one of a module names."""
    body, made = parsed(text).body, dict[Definition, set[Definition]]()
    tops = {node.name: (module, node.name) for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    meant = {**dict(_imports((node for node in body if not hasattr(node, "name")), names)), **tops}
    for node in body:
        one = (module, getattr(node, "name", "(top)"))
        found = set(_used(node, {**meant, **dict(_imports([node], names))}))
        made[one] = made.get(one, set()) | found - {one}
    return made


def starting(modules: Sources) -> dict[Definition, set[Definition]]:
    """What starts a program, itself or through others of the package, and through which of them."""
    names = frozenset(modules)
    uses = {one: others for each in modules.items() for one, others in _uses(*each, names).items()}
    known = {each for others in uses.values() for each in others if _starts(each)}
    while more := {one for one, others in uses.items() if others & known} - known:
        known |= more
    return {one: others & known for one, others in uses.items() if others & known}
