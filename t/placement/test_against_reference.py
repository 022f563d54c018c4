"""The pool chooses what the reference chooses: nodes, domains and ids, at every step."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from placement import strategies as random
from placement.duel import Duel, outcome
from treepool.errors import InvalidJobspec
from treepool.placement import fit, inventory, pool

SETTINGS = settings(
    max_examples=random.EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ONE_CORE = random.jobspec([random.vertex("slot", 1, [random.vertex("core", 1)])])


@SETTINGS
@given(random.histories())
def test_every_step_of_a_history_is_that_of_the_reference(history):
    duel = Duel(history)
    for step in history.steps:
        note(str(step))
        duel.do(step)


@settings(SETTINGS, max_examples=4 * random.EXAMPLES)
@given(st.data())
def test_slots_on_a_node_with_many_domains_that_are_partly_taken(data):
    R = data.draw(random.broad_nodes())
    mode = data.draw(random.some("preferred", "preferred", "required", "none"))
    duel = Duel(random.History(R, mode, data.draw(random.occupations(R)), []))
    for _ in range(3):
        slot = random.vertex("slot", 1, data.draw(random.broad_needs(random.localities(R))))
        duel.do(random.Step("alloc", random.jobspec([slot])))


@SETTINGS
@given(random.histories())
def test_what_the_pool_forgets_makes_no_difference(history):
    """As any step of a history, with room for hardly anything to be remembered."""
    limits = patch.multiple(fit, MAX_FITS=2), patch.multiple(pool, MAX_CANDIDATES=2)
    with limits[0], limits[1], patch.multiple(inventory, MAX_CONSTRAINTS=1):
        duel = Duel(history)
        for step in history.steps:
            duel.pool._inventory.states._limit = 0
            duel.do(step)


@settings(SETTINGS, max_examples=random.EXAMPLES // 5)
@given(st.data())
def test_many_short_jobs_between_two_requests_make_no_difference(data):
    R = data.draw(random.clusters(most=4))
    specs = data.draw(st.lists(random.jobspecs(R), min_size=3, max_size=3))
    duel = Duel(random.History(R, "preferred", None, []))
    for number in (700, 3, 0):
        for spec in specs:
            duel.do(random.Step("alloc", spec))
        request = duel.pool.parse_resource_request(ONE_CORE)
        for jobid in range(10_000, 10_000 + number):
            if isinstance(outcome(partial(duel.pool.alloc, jobid, request)), type):
                break
            duel.pool.free(jobid)
        duel.do(random.Step("free"))


@SETTINGS
@given(st.data())
def test_one_job_after_another_until_the_pool_is_full(data):
    R = data.draw(random.clusters(most=3))
    spec = data.draw(random.jobspecs(R))
    duel = Duel(random.History(R, "preferred", None, []))
    step = random.Step("alloc", spec)
    for _ in range(60):
        if isinstance(duel.alloc(step), type):
            break
    duel.compare()


@SETTINGS
@given(st.data())
def test_a_resource_list_is_refused_just_when_no_form_covers_it(data):
    R = data.draw(random.clusters(most=2))
    spec = random.jobspec(data.draw(random.wild_resources(random.localities(R))))
    duel = Duel(random.History(R, "preferred", None, []))
    want = outcome(lambda: duel.reference.wanted(spec))
    try:
        duel.pool.parse_resource_request(spec)
    except InvalidJobspec as e:
        assert want is InvalidJobspec, e
    else:
        assert want is not InvalidJobspec
        duel.do(random.Step("alloc", spec))
