"""A project as a timeline that OpenTimelineIO's own library reads."""

import opentimelineio
from opentimelineio.schema import Clip, Gap, Timeline

from callsheet.state.video.scene import FPS, Audio, Scene
from tests.doubles.served import served_app


async def test_a_timeline_has_a_clip_for_each_scene_and_each_described_sound(valkey_url: str) -> None:
    scenes = [
        Scene(name="One", durationInFrames=90, audio=Audio(description="soft piano", start=30)),
        Scene(name="Two", durationInFrames=45),
        Scene(durationInFrames=60, audio=Audio(description="sea")),
    ]
    async with served_app(valkey_url) as client:
        body = {"id": "film", "name": "Film", "scenes": [one.data() for one in scenes]}
        assert (await client.post("/api/projects", json=body)).status_code == 201
        reply = await client.get("/api/projects/film/timeline.otio")
        assert reply.headers["content-disposition"].endswith("Film.otio")
        await client.patch("/threads/film", json={"metadata": {"title": "Bread / four"}})
        for path, ending in (("timeline.otio", "otio"), ("preview", "html"), ("export", "json")):
            named = (await client.get(f"/api/projects/film/{path}")).headers["content-disposition"]
            assert named.endswith(f"filename*=UTF-8''Bread%20four.{ending}")
        assert (await client.get("/api/projects/film/film")).json()["name"] == "Bread / four"
        missing = await client.get("/api/projects/nobodys/timeline.otio")
    assert missing.status_code == 404
    timeline = opentimelineio.adapters.read_from_string(reply.text, "otio_json")
    assert isinstance(timeline, Timeline)
    assert (timeline.name, timeline.duration().to_frames()) == ("Film", 195)
    [pictures] = timeline.video_tracks()
    [sounds] = timeline.audio_tracks()
    assert [clip.name for clip in pictures] == ["One", "Two", "scene-3"]
    assert [clip.duration().to_frames() for clip in pictures] == [90, 45, 60]
    assert pictures[1].range_in_parent().start_time.to_seconds() == 90 / FPS
    assert Scene.model_validate(dict(pictures[0].metadata["callsheet"]["scene"])) == scenes[0]
    assert [type(part) for part in sounds] == [Gap, Clip, Gap, Clip]
    assert [part.duration().to_frames() for part in sounds] == [30, 60, 45, 60]
    assert sounds[1].metadata["callsheet"]["description"] == "soft piano"
    assert opentimelineio.adapters.write_to_string(timeline, "otio_json")
