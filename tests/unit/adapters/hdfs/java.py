"""What of Java the tests of HDFS imitate."""


class JavaError(Exception):
    """Looks like a Java exception."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def getClass(self) -> "JavaError":
        return self

    def getSimpleName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return "on purpose"
