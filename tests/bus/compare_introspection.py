#!/usr/bin/env python3
"""Compare what the service answers to Introspect with org.nvmaint1.xml, member by member.

usage: compare_introspection.py DEFINITION INTERFACE=FILE...

Each FILE holds the answer of an object that must have INTERFACE of the definition and no other one of
ours. The definition itself must document every interface, member and argument in the comment before it.
Exit status: 0 all equal, 1 differences (one line each), 2 usage.
"""

import sys
import xml.etree.ElementTree as ET

OURS = "org.nvmaint1."
STANDARD = {
    "org.freedesktop.DBus.Introspectable",
    "org.freedesktop.DBus.Peer",
    "org.freedesktop.DBus.Properties",
}
EMITS = "org.freedesktop.DBus.Property.EmitsChangedSignal"


def annotations(element):
    return {a.get("name"): a.get("value") for a in element.findall("annotation")}


def describe(member):
    """A member as a comparable value."""
    if member.tag == "property":
        notes = annotations(member)
        emits = notes.pop(EMITS, "true")
        return ("property", member.get("type"), member.get("access"), emits, tuple(sorted(notes.items())))
    default = "out" if member.tag == "signal" else "in"
    arguments = tuple(
        (a.get("name"), a.get("type"), a.get("direction", default)) for a in member.findall("arg")
    )
    return (member.tag, arguments, tuple(sorted(annotations(member).items())))


def interfaces(root):
    result = {}
    for interface in root.findall("interface"):
        members = {}
        for member in interface:
            if member.tag in ("method", "signal", "property"):
                members[(member.tag, member.get("name"))] = describe(member)
        result[interface.get("name")] = members
    return result


def undocumented(element, where):
    """Members without a comment right before them, and arguments that it does not name."""
    comment = None
    for child in element:
        if child.tag is ET.Comment:
            comment = child.text
            continue
        if child.tag in ("interface", "method", "signal", "property"):
            name = f"{where}{child.get('name')}"
            if not comment or len(comment.split()) < 2:
                yield f"{name}: no comment"
            for argument in child.findall("arg"):
                if comment and argument.get("name") not in comment:
                    yield f"{name}: the comment does not name {argument.get('name')}"
            if child.tag == "interface":
                yield from undocumented(child, name + ".")
        comment = None


def differences(expected, answered, label):
    for key in sorted(expected.keys() | answered.keys()):
        name = f"{label}.{key[1]} ({key[0]})"
        if key not in answered:
            yield f"{name}: defined, but the service does not have it"
        elif key not in expected:
            yield f"{name}: the service has it, but it is not defined"
        elif expected[key] != answered[key]:
            yield f"{name}: defined {expected[key]}, the service has {answered[key]}"


def main(arguments):
    if len(arguments) < 2 or any("=" not in a for a in arguments[1:]):
        print(__doc__.splitlines()[2], file=sys.stderr)
        return 2
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    definition = ET.parse(arguments[0], parser).getroot()
    problems = list(undocumented(definition, ""))
    defined = interfaces(definition)
    compared = set()
    for argument in arguments[1:]:
        interface, file = argument.split("=", 1)
        answered = interfaces(ET.parse(file).getroot())
        ours = {name for name in answered if name.startswith(OURS)}
        if ours != {interface}:
            problems.append(f"{file}: has {sorted(ours)}, not just {interface}")
        if not STANDARD <= answered.keys():
            problems.append(f"{file}: lacks {sorted(STANDARD - answered.keys())}")
        problems += differences(defined.get(interface, {}), answered.get(interface, {}), interface)
        compared.add(interface)
    for interface in sorted(defined.keys() - compared):
        problems.append(f"{interface}: defined, but no object has it")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
