#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes org.nvmaint1(5) from the comments of org.nvmaint1.xml, so that the two cannot disagree.

usage: bus_page.py XML > PAGE

A comment belongs to the node after it; the first one in the file describes the whole.
"""

import re
import sys
import textwrap
import xml.etree.ElementTree as ElementTree

HEAD = r'''.\" Made from org.nvmaint1.xml.
.TH ORG.NVMAINT1 5 "" nvmaint "File Formats"
.SH NAME
org.nvmaint1 \- the D-Bus interface of nvmaintd
.SH DESCRIPTION
'''
TAIL = r'''.SH EXAMPLES
.nf
busctl tree org.nvmaint1
busctl get-property org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Verdict
busctl call org.nvmaint1 /org/nvmaint1 org.nvmaint1.Manager Trim 'sa{sv}' /var/lib/mysql 0
.fi
.SH SEE ALSO
.BR nvmaintd (8),
.BR nvmaintctl (1),
.BR busctl (1)
'''


def escaped(text):
    """Text as roff takes it literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def prose(comment):
    """A comment as roff: paragraphs are filled, blocks with lines that are set in are kept as they are."""
    lines = comment.strip("\n").split("\n")
    lines[0] = lines[0].strip()
    head, rest = lines[0], textwrap.dedent("\n".join(lines[1:]))
    blocks = (head + "\n" + rest).strip().split("\n\n")
    for number, block in enumerate(blocks):
        if number:
            yield ".PP"
        block_lines = block.rstrip().split("\n")
        if any(line.startswith((" ", "- ")) for line in block_lines):
            yield from (".nf", *(escaped(line) for line in block_lines), ".fi")
        else:
            for place, line in enumerate(block_lines):
                if place and re.match(r"[a-z_, ]+: ", line):  # what an argument means: a line of its own
                    yield ".br"
                yield escaped(line.strip())


def arguments(method, direction):
    return ", ".join(f"{arg.get('type')} {arg.get('name')}" for arg in method.findall("arg")
                     if arg.get("direction", "in") == direction)


def signature(node):
    """One line that names a member with its types."""
    name = node.get("name")
    if node.tag == "property":
        return f"property {node.get('type')} {name}"
    if node.tag == "signal":
        return f"signal {name}({arguments(node, 'in')})"
    results = arguments(node, "out")
    return f"method {name}({arguments(node, 'in')})" + (f" → {results}" if results else "")


def members(interface):
    comment = ""
    for node in interface:
        if node.tag is ElementTree.Comment:
            comment = node.text
            continue
        if node.tag in ("method", "signal", "property"):
            yield from (".PP", ".B " + escaped(signature(node)), ".RS 4")
            yield from prose(comment)
            yield ".RE"
            comment = ""


def page(path):
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    root = ElementTree.fromstring(text, parser=parser)
    start = text.index("<!--") + 4  # the comment before the root, which the parser leaves out
    yield from prose(text[start:text.index("-->", start)])
    comment = ""
    for node in root:
        if node.tag is ElementTree.Comment:
            comment = node.text
        elif node.tag == "interface":
            yield ".SH INTERFACE " + escaped(node.get("name"))
            yield from prose(comment)
            yield from members(node)
            comment = ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8")
    print(HEAD + "\n".join(line for line in page(sys.argv[1]) if line) + "\n" + TAIL, end="")
