"""The tests that are to notice planted bugs, by the names that the bugs use."""

#: Of the state machine's parts, each of which does its part of all steps, the first.
PARTS = 8
MACHINE = "t/placement/test_machine.py::test_no_operation_in_any_order_breaks_a_promise[0]"

#: What pytest is to run; the bounds and ties of policy packing, and cores that GPUs cannot share
#: evenly, are rare in the machine's histories.
TESTS = {
    "machine": ("t/conformance/test_vectors.py", "t/placement/test_usable.py", MACHINE),
    "fabric": (
        "t/placement/test_domains.py",
        "t/placement/test_idle_nodes.py",
        "t/placement/test_fabric.py",
        "t/placement/test_job_fabric.py",
        "t/placement/test_plan_fabric.py",
        "t/placement/test_spread.py",
        "t/placement/test_fitness.py",
    ),
    "wait": ("t/placement/test_wait.py",),
    "counts": ("t/rfc/test_count.py",),
    "reference": ("t/placement/test_against_reference.py",),
    "irregular": ("t/placement/test_irregular.py",),
    "types": ("t/placement/test_across_types.py",),
    "formats": ("t/rfc/test_subinstance.py", "t/rfc/test_fabric.py"),
    "gpus": ("t/placement/test_best_set.py",),
    "fitness": ("t/placement/test_fitness.py",),
    "submissions": ("t/flux/test_submissions.py",),
    "driven": ("t/flux/test_driven.py",),
    "told": ("t/flux/test_asking.py",),
    "adapter": ("t/flux/test_adapter.py",),
}

#: Those that need Flux.
OF_FLUX = {"adapter", "driven", "told"}
