"""What TensorFlow makes of a function's graph."""

from tensorflow.python.eager import context


def operations(call) -> set[str]:
    """The kinds of operations that run in a call, after TensorFlow's optimizer."""
    context.context().enable_run_metadata()
    context.context().export_run_metadata()  # what ran since an earlier call is collected, too, disabled or not
    call()
    graphs = [g for f in context.context().export_run_metadata().function_graphs for g in f.partition_graphs]
    context.context().disable_run_metadata()
    inner = [node.op for graph in graphs for function in graph.library.function for node in function.node_def]
    return {node.op for graph in graphs for node in graph.node} | set(inner)


def sums_up_in_place(found: set[str]) -> bool:
    """Whether a sum of three or more may get a temporary variable, which collides with others in a loop."""
    return bool(found & {"AddN", "AccumulateNV2", "TemporaryVariable"})
