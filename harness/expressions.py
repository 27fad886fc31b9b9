"""Integer expressions of problem.yaml, such as a shape's `ceil_div(max_context_len, page_size)`; never eval()."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_CALLS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "ceil_div": lambda a, b: -(-a // b),
}
_ALLOWED = "whole numbers, names, + - * //, min(), max(), ceil_div(a, b)"
_MAX_LENGTH = 200


class ExpressionError(ValueError):
    """The text is not such an expression, or has no value; the message says why."""


def names_in(text: str) -> frozenset[str]:
    """Names that the expression needs a value for. Raises ExpressionError."""
    nodes = list(ast.walk(_parse(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called)


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of the expression. Raises ExpressionError for bad syntax, unknown names and division by zero."""
    try:
        return _value(_parse(text), names)
    except ZeroDivisionError:
        raise ExpressionError(f"{text!r} divides by zero") from None


def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(f"the expression is longer than {_MAX_LENGTH} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise ExpressionError(f"{text!r} is not an expression; allowed: {_ALLOWED}") from None


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise ExpressionError(f"{name!r} is not known here; known: {', '.join(sorted(names)) or 'nothing'}")
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
            return _call(name, [_value(argument, names) for argument in args])
    raise ExpressionError(f"{ast.unparse(node)!r} is not allowed; allowed: {_ALLOWED}")


def _call(name: str, values: list[int]) -> int:
    try:
        return _CALLS[name](*values)
    except TypeError:
        raise ExpressionError(f"{name}() does not take {len(values)} argument(s)") from None
