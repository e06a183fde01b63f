"""Pairing expected with actual calls, and the distance between two sequences of calls.

Both are exact. They are the two steps of scoring that SQL has no words for.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

# Above this many calls of one tool on either side the assignment itself stays optimal, but which
# of several equally good ones is taken is the solver's choice: the rule for ties costs too much.
TIE_RULE_LIMIT = 300


def assign_calls(weights: Sequence[int], column_count: int) -> list[int]:
    """Pair rows (expected calls) with columns (actual calls) so that the summed weight is greatest.

    As many pairs as the shorter side allows are made. Among equally good assignments the one is
    taken in which each row, in order, is left over if it can be, else has the lowest column it can.

    Args:
        weights: the matrix, row by row; each at least 0.
        column_count: how many columns it has, at least 1.

    Returns:
        For each row its column, from 0; -1 for a row that is left over.
    """
    rows = [list(weights[i : i + column_count]) for i in range(0, len(weights), column_count)]
    size = max(len(rows), column_count)
    if size > TIE_RULE_LIMIT:
        return _assign_many(rows, column_count)
    spare = size - column_count  # columns that stand for none, before the real ones
    costs = [[0] * spare + [-weight for weight in row] for row in rows]
    costs += [[0] * size for _ in range(size - len(rows))]
    columns, tight = _solve(costs)
    _take_first(columns, tight, len(rows))
    return [column - spare if column >= spare else -1 for column in columns[: len(rows)]]


def _assign_many(rows: list[list[int]], column_count: int) -> list[int]:
    import numpy
    from scipy.optimize import linear_sum_assignment

    chosen = [-1] * len(rows)
    for row, column in zip(*linear_sum_assignment(numpy.array(rows), maximize=True), strict=True):
        chosen[int(row)] = int(column)
    return chosen


def _solve(costs: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """The Hungarian algorithm on a square matrix.

    Returns the column of each row in one cheapest assignment, and for each row the columns whose
    edges are tight: every cheapest assignment is made of those, and every perfect matching of those
    is a cheapest assignment.
    """
    size = len(costs)
    row_price, column_price = [0] * (size + 1), [0] * (size + 1)
    row_of, way = [0] * (size + 1), [0] * (size + 1)
    for row in range(1, size + 1):
        row_of[0], column = row, 0
        least: list[float] = [float("inf")] * (size + 1)
        used = [False] * (size + 1)
        while row_of[column]:
            used[column] = True
            current, delta, following = row_of[column], float("inf"), 0
            for other in range(1, size + 1):
                if used[other]:
                    continue
                slack = costs[current - 1][other - 1] - row_price[current] - column_price[other]
                if slack < least[other]:
                    least[other], way[other] = slack, column
                if least[other] < delta:
                    delta, following = least[other], other
            for other in range(size + 1):
                if used[other]:
                    row_price[row_of[other]] += int(delta)
                    column_price[other] -= int(delta)
                else:
                    least[other] -= delta
            column = following
        while column:
            row_of[column], column = row_of[way[column]], way[column]
    columns = [0] * size
    for column in range(1, size + 1):
        columns[row_of[column] - 1] = column - 1
    tight = [
        [j for j in range(size) if costs[i][j] == row_price[i + 1] + column_price[j + 1]]
        for i in range(size)
    ]
    return columns, tight


def _take_first(columns: list[int], tight: list[list[int]], row_count: int) -> None:
    """Change a perfect matching of tight edges into the first one, row by row, column by column."""
    row_of = {column: row for row, column in enumerate(columns)}
    for row in range(row_count):
        for column in tight[row]:
            if column == columns[row]:
                break
            displaced = row_of[column]
            if displaced < row:
                continue
            path = _find_path(displaced, columns[row], row, column, columns, tight, row_of)
            if path is None:
                continue
            columns[row] = column
            row_of[column] = row
            for moved, target in path:
                columns[moved] = target
                row_of[target] = moved
            break


def _find_path(
    start: int,
    goal: int,
    fixed: int,
    taken: int,
    columns: list[int],
    tight: list[list[int]],
    row_of: dict[int, int],
) -> list[tuple[int, int]] | None:
    """Moves that give row ``start`` a column by freeing ``goal``; rows up to ``fixed`` stay."""
    came_from: dict[int, tuple[int, int]] = {}
    todo, seen = [start], {taken}
    while todo:
        row = todo.pop()
        for column in tight[row]:
            if column in seen:
                continue
            seen.add(column)
            if column == goal:
                path = [(row, column)]
                while row != start:
                    row, column = came_from[row]
                    path.append((row, column))
                return path
            owner = row_of[column]
            if owner <= fixed:
                continue
            came_from[owner] = (row, column)
            todo.append(owner)
    return None


def sequence_distance(expected: Sequence[Hashable], called: Sequence[Hashable]) -> int:
    """The Levenshtein distance between two sequences (insert, delete, replace), bit-parallel.

    Source: Myers, A fast bit-vector algorithm for approximate string matching based on dynamic
    programming, 1999, in the form of Hyyro, 2003.
    """
    if not expected or not called:
        return max(len(expected), len(called))
    masks: dict[Hashable, int] = {}
    for position, item in enumerate(expected):
        masks[item] = masks.get(item, 0) | (1 << position)
    everything, last = (1 << len(expected)) - 1, 1 << (len(expected) - 1)
    plus, minus, distance = everything, 0, len(expected)
    for item in called:
        equal = masks.get(item, 0)
        diagonal = ((((equal & plus) + plus) ^ plus) | equal | minus) & everything
        up, down = (minus | ~(diagonal | plus)) & everything, plus & diagonal
        if up & last:
            distance += 1
        elif down & last:
            distance -= 1
        up, down = ((up << 1) | 1) & everything, (down << 1) & everything
        plus, minus = (down | ~(diagonal | up)) & everything, up & diagonal
    return distance
