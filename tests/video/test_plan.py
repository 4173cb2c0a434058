"""Plans: what waits for what."""

from callsheet.state.plan import (
    Plan,
    Step,
    canonical_json,
    fingerprint,
    with_dependencies,
)


def step(name, reads=(), writes=()):
    return Step(
        id=name, tool="t", display="", params={}, dependencies=[], reads=list(reads), writes=list(writes)
    )


def plan(*steps):
    return Plan(id="p", steps=with_dependencies(list(steps)))


VOICES, MUSIC = step("v", writes=["voices"]), step("m", writes=["music"])
EFFECTS, LOOK = step("x", reads=["voices"], writes=["sfx"]), step("look", reads=["voices", "sfx"])


def waits(made):
    return {one["id"]: one["dependencies"] for one in made["steps"]}


def test_a_step_waits_for_earlier_ones_that_write_what_it_touches():
    assert waits(plan(VOICES, MUSIC, EFFECTS, LOOK)) == {"v": [], "m": [], "x": ["v"], "look": ["v", "x"]}
    assert waits(plan(LOOK, VOICES)) == {"look": [], "v": []}
    assert waits(plan(VOICES, step("v2", writes=["voices"]))) == {"v": [], "v2": ["v"]}


def test_two_steps_that_would_do_the_same_have_one_fingerprint():
    one, other, more = plan(VOICES, {**VOICES, "id": "other"}, {**VOICES, "params": {"a": 1}})["steps"]
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(more)


def test_json_keeps_text_as_it_is_and_sorts_keys():
    assert canonical_json({"b": "ไทย", "a": 1}) == '{"a": 1, "b": "ไทย"}'
