"""Names in Java, asked for once: each step of ``jvm.org.apache.spark`` is otherwise looked for in all jars."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView


def remember_java_names() -> None:
    """Keep what a name stands for, for as long as this process lives: a sixth of what Java does for small tests."""
    for kind in (JavaPackage, JVMView):
        _remember(kind)


def _remember(kind: type[Any]) -> None:
    ask, known = kind.__getattr__, {}

    def found(self: Any, name: str) -> Any:
        place = (id(self.__dict__.get("_gateway_client")), self.__dict__.get("_fqn"), name)
        if place not in known:
            answer = ask(self, name)
            if not isinstance(answer, JavaClass | JavaPackage):
                return answer
            known[place] = answer
        return known[place]

    kind.__getattr__ = found
