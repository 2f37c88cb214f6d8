"""Printer: writes a syntax tree in canonical form.

One statement per line, one blank between words, comments at their places, at most one empty line in a row. Printing is
idempotent, and the printed text parses to the same model.
"""

from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.positions import Source

_SYNONYMS = {">=": ">", "<=": "<"}  # in constraints, where the bounds include equality


def print_tree(source: Source, parsed: tree.Tree) -> str:
    """The canonical form of ``source``; ``parsed`` is its tree, without errors."""
    pieces: list[tree.Statement | tree.Comment] = sorted(
        (*parsed.statements, *parsed.comments), key=lambda node: node.span.start
    )
    lines: list[str] = []
    last_line = 0
    for piece in pieces:
        line = source.line_of(piece.span.start)
        if isinstance(piece, tree.Comment) and piece.trailing and lines:
            lines[-1] += f"  {piece.text}"
        else:
            if lines and line > last_line + 1:
                lines.append("")
            lines.append(piece.text if isinstance(piece, tree.Comment) else print_statement(piece))
        last_line = line
    return "".join(f"{line}\n" for line in lines)


def print_statement(statement: tree.Statement) -> str:
    match statement:
        case tree.Set(name=name, value=value):
            shown = (
                f"{literal(value.size)} in {literal(value.time)}" if isinstance(value, tree.Channel) else literal(value)
            )
            return f"set {name.text} = {shown}"
        case tree.Let(name=name, value=value):
            return f"let {name.text} = {_let_value(value)}"
        case tree.Rule():
            return _rule(statement)


def _let_value(value: tree.Pages | tree.Condition | tree.Literal) -> str:
    if isinstance(value, tree.Literal):
        return literal(value)
    if isinstance(value, tree.Pattern | tree.PageName | tree.LinkedPages | tree.Union):
        return pages(value)
    return condition(value)


def _rule(rule: tree.Rule) -> str:
    words = []
    if rule.shadow is not None:
        words.append("shadow")
    if rule.condition is not None:
        words += [condition(rule.condition), "=>"]
    words.append(constraint(rule.constraint))
    if rule.alias is not None:
        words += ["as", rule.alias.text]
    return " ".join(words)


def constraint(node: tree.Bound | tree.Before) -> str:
    if isinstance(node, tree.Before):
        return " before ".join(_primary(member) for member in node.members)
    op = _SYNONYMS.get(node.op.text, node.op.text)
    return f"{_term(node.term)} {op} {_value(node.value)}{' hard' if node.hard is not None else ''}"


def _term(node: tree.Term) -> str:
    return f"{_primary(node.pages)}.{node.attribute.text}"


def _value(node: tree.Value) -> str:
    match node:
        case tree.Channel(size=size, time=time):
            return f"{literal(size)} in {literal(time)}"
        case tree.ResponseHeader(name=name):
            return f"response_header({literal(name)})"
        case tree.Relative(factor=None, term=term):
            return _term(term)
        case tree.Relative(factor=factor, term=term):
            assert factor is not None
            return f"{literal(factor)} * {_term(term)}"
        case tree.Amount(value=value, scale=scale):
            shown = value.text if isinstance(value, tree.Name) else literal(value)
            if scale is None:
                return shown
            return f"{shown} of capacity" if scale.text == "capacity" else f"{shown} * nodes"


def pages(node: tree.Pages) -> str:
    if isinstance(node, tree.Union):
        return " | ".join(pages(member) for member in node.members)
    return _primary(node)


def _primary(node: tree.Pages) -> str:
    match node:
        case tree.Pattern(text=text):
            return f"<{text}>"
        case tree.PageName(name=name):
            return name
        case tree.LinkedPages(pages=linking):
            return f"links({pages(linking)})"
        case tree.Union():
            return f"({pages(node)})"


def condition(node: tree.Condition) -> str:
    match node:
        case tree.Or(items=items):
            return " or ".join(condition(item) for item in items)
        case tree.And(items=items):
            return " and ".join(_in_group(item, (tree.Or,)) for item in items)
        case tree.Not(item=item):
            return f"not {_in_group(item, (tree.Or, tree.And))}"
        case tree.Compare(subject=subject, op=op, value=value):
            return f"{_subject(subject)} {op.text} {literal(value)}"
        case tree.In(subject=subject, items=values):
            shown = ", ".join(_item(value) for value in values)
            return f"{_subject(subject)} in {shown if len(values) == 1 else f'({shown})'}"
        case tree.Like(subject=subject, glob=glob):
            return f"{_subject(subject)} like {literal(glob)}"
        case tree.Has(subject=subject):
            return _subject(subject)
        case tree.Accessed(pages=accessed, within=within, by_client=by_client):
            return f"{'client ' if by_client else ''}accessed({pages(accessed)}) within {literal(within)}"
        case tree.Reference(name=name):
            return name


def _in_group(node: tree.Condition, loose: tuple[type, ...]) -> str:
    shown = condition(node)
    return f"({shown})" if isinstance(node, loose) else shown


def _item(node: tree.Literal | tree.Range) -> str:
    return literal(node) if isinstance(node, tree.Literal) else f"{literal(node.low)}..{literal(node.high)}"


def _subject(node: tree.Subject) -> str:
    return node.name if node.argument is None else f"{node.name}({literal(node.argument)})"


def literal(node: tree.Literal) -> str:
    if not node.quoted:
        return node.text
    escaped = node.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
