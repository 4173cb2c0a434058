"""Plans: dependencies, ready steps and blocked steps."""

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


def dependencies_of(planned):
    return {one["id"]: one["dependencies"] for one in planned["steps"]}


def test_a_step_depends_on_earlier_steps_that_write_its_streams():
    assert dependencies_of(plan(VOICES, MUSIC, EFFECTS, LOOK)) == {
        "v": [],
        "m": [],
        "x": ["v"],
        "look": ["v", "x"],
    }
    assert dependencies_of(plan(LOOK, VOICES)) == {"look": [], "v": []}
    assert dependencies_of(plan(VOICES, step("v2", writes=["voices"]))) == {"v": [], "v2": ["v"]}


def test_steps_with_equal_tool_and_params_have_equal_fingerprints():
    one, other, more = plan(VOICES, {**VOICES, "id": "other"}, {**VOICES, "params": {"a": 1}})["steps"]
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one) != fingerprint(more)


def test_canonical_json_sorts_keys_and_keeps_unicode():
    assert canonical_json({"b": "ไทย", "a": 1}) == '{"a": 1, "b": "ไทย"}'
