"""Java classes whose methods several threads may call at once, from the first call on.

JPype makes its side of a Java type when a call first asks whether an argument fits a parameter of
that type. Other threads see the type a moment before it has its conversions, and one that asks
the same in that moment ends the process: SIGSEGV in JPConversionObject::matches. So every type
that a client's calls can ask for is made before its threads call.

Source: JPype 1.7.1, PyJPClass_hook (setHost, then _jclassPost, which sets _hints) and
JPClass::getHints.
"""

import inspect
import re
import sys
import threading
from collections.abc import Iterator
from functools import cache
from types import CodeType
from typing import Any

# What java.lang.reflect.Method and Constructor say of themselves, as their toString is specified:
# the return type, the name and the parameter types. One call for a class instead of hundreds.
_METHOD = re.compile(r"([^\s\[]+)[\[\]]* [^\s(]+\.([^\s(]+)\(([^)]*)\)")
_CONSTRUCTOR = re.compile(r"()()[^\s(]+\(([^)]*)\)")
_making = threading.Lock()  # two clients may be opened at once


class JavaTypes:
    """Gives Java classes by name, with all types that calls of ``called`` can ask for made.

    These are parameter types of the class's constructors and of its methods so named, also of
    those of the types that they return. Measured: 35 types in 50 ms for each client. All methods
    would be hundreds of types, most of which no call of ours asks for.
    """

    def __init__(self, called: frozenset[str]) -> None:
        import jpype  # runs by now; see start_jvm

        self._called, self._class = called, jpype.JClass
        self._arrays = jpype.JClass("java.util.Arrays")
        self._given: set[str] = set()  # classes by name, which may be constructed
        self._known: set[str] = set()  # types whose methods were inspected
        self._made: set[str] = set()  # parameter types

    def __call__(self, name: str) -> Any:
        """The class. Raises: TypeError: there is none of that name."""
        found = self._class(name)
        with _making:
            if name not in self._given:
                self._inspect(found.class_.getConstructors(), _CONSTRUCTOR)
                self._inspect_class(found.class_)
                self._given.add(name)
        return found

    def ready(self, instance: Any) -> Any:
        """The same object; its class may have more methods than the type it was declared as."""
        with _making:
            self._inspect_class(instance.getClass())
        return instance

    def _inspect_class(self, java_class: Any) -> None:
        pending = [java_class]
        while pending:
            inspected = pending.pop()
            name = str(inspected.getName())
            if name not in self._known:
                pending += self._inspect(inspected.getMethods(), _METHOD)
                self._known.add(name)

    def _inspect(self, executables: Any, pattern: re.Pattern[str]) -> list[Any]:
        """Create the parameter types. Returns: unknown return types."""
        returned: dict[str, Any] = {}
        texts = pattern.findall(str(self._arrays.toString(executables)))
        assert len(texts) == len(executables)
        for number, (kind, name, parameters) in enumerate(texts):
            if name and name not in self._called:
                continue
            if "." in kind and kind not in self._known:
                returned[kind] = executables[number].getReturnType()
            if not self._made.issuperset(parameters.split(",")):
                for parameter in executables[number].getParameterTypes():
                    self._make(parameter)
                self._made.update(parameters.split(","))
        return [kind for kind in returned.values() if not kind.isArray()]

    def _make(self, java_class: Any) -> None:
        while java_class is not None:  # a list is compared with what an array consists of
            self._class(java_class)
            java_class = java_class.getComponentType()


@cache
def java_types(package: str) -> JavaTypes:
    """Types for the calls that are written in the loaded modules of a package of ours."""
    return JavaTypes(frozenset(_names_in(package)))


def _names_in(package: str) -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{package}."):
            for value in vars(module).values():
                if getattr(value, "__module__", "") == name:
                    yield from _names_of(value)


def _names_of(value: Any) -> Iterator[str]:
    if isinstance(value, type):
        for member in vars(value).values():
            yield from _names_of(member)
    elif isinstance(value, CodeType):
        yield from value.co_names
        for constant in value.co_consts:
            yield from _names_of(constant)
    elif callable(value):
        function = inspect.unwrap(value)  # of a context manager
        yield from _names_of(getattr(function, "__code__", None))
