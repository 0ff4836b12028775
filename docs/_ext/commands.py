"""`{command} VERB`: the reference of one command, read off the parser that serves it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from kernelite.cli import VERBS, dropins

DROPINS = {
    "approx-svm": "approx_svm",
    "approx-predict": "approx_predict",
    "approx-analyse": "approx_analyse",
    "approx-xval": "approx_xval",
}


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser of a verb of `kernelite`, or of one of approxsvm's commands."""
    if command in DROPINS:
        return _dropin(DROPINS[command])
    summary = VERBS[command]
    parser = argparse.ArgumentParser(
        prog=f"kernelite {command}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    import_module(f"kernelite.cli.{command.replace('-', '_')}").configure(parser)
    return parser


def _dropin(name: str) -> argparse.ArgumentParser:
    """These make their parser and run in one call: stop between the two."""
    seen: list[argparse.ArgumentParser] = []
    main, module = dropins._main, vars(dropins)
    try:
        module["_main"] = lambda parser, argv, run: seen.append(parser) or 0
        getattr(dropins, name)([])
    finally:
        module["_main"] = main
    return seen[0]


class Command(SphinxDirective):
    """Usage, what it does, its options, examples and remarks."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The nodes of the reference."""
        parser = parser_of(self.arguments[0])
        usage = parser.format_usage().removeprefix("usage: ").rstrip()
        usage = re.sub(r"\n {7}", "\n", usage)
        found: list[nodes.Node] = [nodes.paragraph("", *self.words(parser.description or ""))]
        found.append(nodes.literal_block(usage, usage, language="text"))
        for group in parser._action_groups:
            found += self.group(parser, group)
        return found + list(self.epilog(parser.epilog or ""))

    def group(self, parser: argparse.ArgumentParser, group: Any) -> list[nodes.Node]:
        """A heading and a definition for each option."""
        shown = [
            a
            for a in group._group_actions
            if a.help != argparse.SUPPRESS and not isinstance(a, argparse._HelpAction)
        ]
        if not shown:
            return []
        listed = nodes.definition_list()
        for action in shown:
            term = nodes.term("", "", nodes.literal(text=_invocation(action)))
            text = parser._get_formatter()._expand_help(action) if action.help else ""
            body = nodes.definition("", nodes.paragraph("", *self.words(text)))
            listed += nodes.definition_list_item("", term, body)
        return [nodes.rubric(text=group.title or ""), listed]

    def epilog(self, text: str) -> Iterator[nodes.Node]:
        """Examples are code; what follows are paragraphs."""
        head, _, rest = text.partition("\n\n")
        if head.startswith("example"):
            lines = [line.removeprefix("  ") for line in head.splitlines()[1:]]
            yield nodes.rubric(text="examples")
            code = "\n".join(lines) or head
            yield nodes.literal_block(code, code, language="bash")
        else:
            rest = text
        for paragraph in filter(None, re.split(r"\n\s*\n", rest.strip())):
            yield nodes.paragraph("", *self.words(" ".join(paragraph.split())))

    def words(self, text: str) -> list[nodes.Node]:
        """Text, and what stands between backticks as code."""
        parts = text.replace("%%", "%").split("`")
        return [
            nodes.literal(text=part) if i % 2 else nodes.Text(part)
            for i, part in enumerate(parts)
            if part
        ]


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    return f"{names} {action.metavar or choices or action.dest.upper()}"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
