"""C10: information does not flow in circles (G1c over reads of committed writes, in time and in processes).

Only write-read edges count, and the order within processes and of real time; Kafka promises nothing about the
order in which transactions that interleave write (G0 and cycles through write order are allowed).
"""

from collections.abc import Iterator
from itertools import pairwise

from everlog.sim.checkers.versions import Versions
from everlog.sim.checkers.violation import Violation
from everlog.sim.history import Operation


def check(versions: Versions) -> Iterator[Violation]:
    """Find operations each of which saw, at some remove, what came of itself."""
    operations = versions.operations
    number = {id(operation): index for index, operation in enumerate(operations)}
    graph: list[list[int]] = [[] for _ in operations]
    for index, operation in enumerate(operations):
        if not operation.read_committed:
            continue
        for polled in operation.polls:
            writer = versions.writers.get((polled.partition, polled.value))
            if writer is not None and writer is not operation:
                graph[number[id(writer)]].append(index)
    for before, after in _process_order(versions):
        graph[number[id(before)]].append(number[id(after)])
    _add_real_time(operations, graph)
    for component in strongly_connected(graph):
        circle = sorted(node for node in component if node < len(operations))
        if len(circle) > 1:
            listed = "; ".join(str(operations[node]) for node in circle[:6])
            yield Violation("C10", f"{len(circle)} operations saw what came of themselves: {listed}")


def _process_order(versions: Versions) -> Iterator[tuple[Operation, Operation]]:
    for operations in versions.processes():
        for before, after in pairwise(operations):
            if before.end is not None and before.end <= after.start:
                yield before, after


def _add_real_time(operations: tuple[Operation, ...], graph: list[list[int]]) -> None:
    """Lead from what ended to what began later through a chain of moments, so that edges stay few."""
    moments = sorted({operation.end for operation in operations if operation.end is not None})
    first = len(graph)
    graph.extend([first + at + 1] if at + 1 < len(moments) else [] for at in range(len(moments)))
    at_moment = {moment: first + at for at, moment in enumerate(moments)}
    starts = sorted(range(len(operations)), key=lambda index: operations[index].start)
    passed = -1
    for index in starts:
        while passed + 1 < len(moments) and moments[passed + 1] < operations[index].start:
            passed += 1
        if passed >= 0:
            graph[first + passed].append(index)
    for index, operation in enumerate(operations):
        if operation.end is not None:
            graph[index].append(at_moment[operation.end])


def strongly_connected(graph: list[list[int]]) -> Iterator[list[int]]:
    """The strongly connected components of more than one node (Tarjan 1972, without recursion)."""
    order: list[int] = [-1] * len(graph)
    lowest: list[int] = [0] * len(graph)
    on_stack = bytearray(len(graph))
    stack: list[int] = []
    count = 0
    for root in range(len(graph)):
        if order[root] >= 0:
            continue
        path: list[tuple[int, Iterator[int]]] = [(root, iter(graph[root]))]
        order[root] = lowest[root] = count
        count += 1
        stack.append(root)
        on_stack[root] = 1
        while path:
            node, successors = path[-1]
            for successor in successors:
                if order[successor] < 0:
                    order[successor] = lowest[successor] = count
                    count += 1
                    stack.append(successor)
                    on_stack[successor] = 1
                    path.append((successor, iter(graph[successor])))
                    break
                if on_stack[successor]:
                    lowest[node] = min(lowest[node], order[successor])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    component = _pop_until(stack, node)
                    for member in component:
                        on_stack[member] = 0
                    if len(component) > 1:
                        yield component


def _pop_until(stack: list[int], node: int) -> list[int]:
    popped = [stack.pop()]
    while popped[-1] != node:
        popped.append(stack.pop())
    return popped
