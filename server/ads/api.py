"""The routes, replies and import checks of `ad_creation`."""

from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.ads import edits, routes, service, version_routes
from callsheet.server.ads.bodies import MixerUpdate
from callsheet.server.artefacts.features import FeatureApi
from callsheet.state.errors import Invalid
from callsheet.storage.archive.file import ArtefactEntry


def _check_artefact(entry: ArtefactEntry) -> None:
    facts = entry.artefact.facts
    _require_number(facts, "spotSeconds")
    if entry.artefact.mixer is not None:
        MixerUpdate.model_validate(entry.artefact.mixer)
    newest: dict[str, Mapping[str, Any]] = {version.stream: version.data for version in entry.versions}
    for version in entry.versions:
        edits.normalize(version.stream, version.data, newest, facts)


def _require_number(facts: Mapping[str, str], name: str) -> None:
    try:
        float(facts.get(name, "0"))
    except ValueError as error:
        raise Invalid(f"{name} {facts[name]!r} is not a number", remedy="export the thread again") from error


API: Final = FeatureApi(
    routers=(routes.router, version_routes.router),
    reply_builder=service.reply_builder,
    tags={
        "ads": "Audio ads: made from a brief, refined by chat",
        "versions": "Versions of an ad's voices, music and sound effects",
    },
    check_artefact=_check_artefact,
)
