"""Lists the parts of a Spark plan in a few calls to the JVM, because walking it would need a call for each node."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"
_PLAN = "org.apache.spark.sql.catalyst.plans.QueryPlan"
_FUNCTION = "scala.Function1"


class PlanInspector:
    """Class names without packages: ``operators``, ``expressions``, and ``leaves`` with the relations they read."""

    def __init__(self, df: DataFrame) -> None:
        functions = _functions(df.sparkSession.sparkContext._gateway)
        plan = df._jdf.queryExecution().analyzed()
        self.operators: set[str] = set()
        self.expressions: set[str] = set()
        self.leaves: set[tuple[str, str]] = set()
        for part in [plan, *items(plan.subqueriesAll())]:
            self.operators |= _names(part.map(functions.kind))
            self.expressions |= _names(part.flatMap(functions.kinds))
            self.leaves |= {_leaf(leaf) for leaf in items(part.collectLeaves())}


class _Functions:
    """Scala functions made of methods of the JVM, so that the JVM need not call Python."""

    def __init__(self, gateway: Any) -> None:
        jvm = gateway.jvm
        self._gateway = gateway
        self._handles = jvm.java.lang.invoke.MethodHandles
        self._lookup = self._handles.publicLookup()
        self._proxies = jvm.java.lang.invoke.MethodHandleProxies
        self._convert = jvm.scala.jdk.javaapi.FunctionConverters.asScalaFromFunction
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        #: The class of a node, and the classes of all expressions of an operator.
        self.kind = self._function("java.lang.Object", "getClass")
        inside = self._function(_NODE, "map", self.kind)
        every = self._function("scala.collection.IterableOps", "flatMap", inside)
        self.kinds = self._function(_PLAN, "expressions").andThen(every)

    def _function(self, owner: str, name: str, argument: Any = None) -> Any:
        """``x -> x.name()``, or ``x -> x.name(argument)`` with a function as argument."""
        kinds = [] if argument is None else [self._class(_FUNCTION)]
        method = self._class(owner).getMethod(name, self._array("java.lang.Class", kinds))
        handle = self._lookup.unreflect(method)
        if argument is not None:
            handle = self._handles.insertArguments(handle, 1, self._array("java.lang.Object", [argument]))
        return self._convert(self._proxies.asInterfaceInstance(self._class("java.util.function.Function"), handle))

    def _class(self, name: str) -> Any:
        return self._gateway.jvm.java.lang.Class.forName(name, True, self._loader)

    def _array(self, kind: str, values: list[Any]) -> Any:
        found = self._gateway.new_array(getattr(self._gateway.jvm, kind), len(values))
        for index, value in enumerate(values):
            found[index] = value
        return found


@lru_cache(1)
def _functions(gateway: Any) -> _Functions:
    return _Functions(gateway)


def _names(classes: Any) -> set[str]:
    text = str(classes.distinct().mkString("\n"))
    return {_simple(line) for line in text.split("\n") if line}


def _leaf(leaf: Any) -> tuple[str, str]:
    kind = _simple(leaf.getClass().getName())
    return kind, _simple(leaf.relation().getClass().getName()) if kind == "LogicalRelation" else ""


def _simple(name: str) -> str:
    return name.removesuffix("$").replace("$", ".").rpartition(".")[2]


def items(seq: Any) -> list[Any]:
    return [seq.apply(index) for index in range(seq.size())]
