"""XML read with expat alone: a tree of elements, entities and documents that are too large or too deep refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from moeopt.cluster.readers.text import refuse
from moeopt.errors import InstanceError

MOST_ELEMENTS, MOST_DEEP = 1_000_000, 200


@dataclass
class Element:
    """An element: tag, attributes, children and the text directly within."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str, default: str = "") -> str:
        """An attribute, or `default`."""
        return self.attributes.get(name, default)

    def find(self, *tags: str) -> list[Element]:
        """Children with one of the tags."""
        return [child for child in self.children if child.tag in tags]

    def walk(self) -> list[Element]:
        """This element and all below, in the order of the document."""
        found, stack = [], [self]
        while stack:
            at = stack.pop()
            found.append(at)
            stack.extend(reversed(at.children))
        return found


def read_xml(text: str, source: str) -> list[Element]:
    """The elements at the top of a document: one, or several of a fragment.

    Entities of the document's own are refused, whatever they are; nothing outside the document is ever loaded.

    Raises
    ------
    InstanceError
        Broken or cut short (with line and column), with entities, too large or too deep.

    >>> [element.tag for element in read_xml("<!-- log --><cpu/><cpu numaid='1'/>", "x.xml")]
    ['cpu', 'cpu']
    >>> read_xml('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "x.xml")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: x.xml: topology = DTD of a: entities and DTDs of a document are not read. Remove them; no topology tool writes any.
    """  # noqa: E501
    head = text.lstrip()
    top = Element("", {})
    stack = [top]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(stack) > MOST_DEEP:
            what = f"{count:,} elements" if count > MOST_ELEMENTS else f"{len(stack)} levels"
            raise refuse(source, what, "is larger than any topology", "Is it the right file?")
        element = Element(tag, dict(attributes))
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def data(content: str) -> None:
        stack[-1].text += content

    def entity(name: str, *_: object) -> None:
        rule = "entities and DTDs of a document are not read"
        raise refuse(source, f"DTD of {name}", rule, "Remove them; no topology tool writes any")

    def doctype(name: str, _system: object, _public: object, internal: int) -> None:
        if internal:
            entity(name)

    declared = head.startswith("<?xml") or "<!DOCTYPE" in head[:4096]
    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = data
    parser.EntityDeclHandler = entity
    if declared:
        parser.StartDoctypeDeclHandler = doctype
    try:
        if not declared:
            parser.Parse("<fragment>", False)  # several elements may stand at the top
        parser.Parse(head if declared else text, declared)
        if not declared:
            parser.Parse("</fragment>", True)
    except expat.ExpatError as error:
        line = text.split("\n")[error.lineno - 1 : error.lineno] or [""]
        cut = "was the file cut short?" if error.lineno >= text.rstrip().count("\n") + 1 else "repair that line"
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise refuse(source, line[0].strip() or "''", f"broken XML ({expat.ErrorString(error.code)})",
                     cut.capitalize(), where) from error  # fmt: skip
    except InstanceError:
        raise
    except (ValueError, RecursionError, UnicodeError) as error:
        raise refuse(source, "...", f"cannot be read ({error})", "Repair the file") from error
    return top.children if declared else top.children[0].children
