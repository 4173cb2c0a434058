"""Pronunciations of names in the terminal: those of one ad, or of everything of the owner's."""

from callsheet.server.cli.artefacts import find
from callsheet.server.cli.client import ServerClient, path_part
from callsheet.server.cli.kinds import ADS
from callsheet.server.cli.output import print_json, print_table, text
from callsheet.server.cli.parsing import Args
from callsheet.state.errors import Invalid, Missing


def pronunciations(client: ServerClient, args: Args) -> None:
    """Show how names are spoken, after setting and removing some; without an id everywhere."""
    path = "/api/pronunciations"
    if args.id:
        find(client, ADS, args.id)
        path = f"/api/ads/{path_part(args.id)}/pronunciations"
    view = client.get(path)
    if args.set or args.remove:
        names = {**view["names"], **dict(map(_pronunciation, args.set))}
        if unknown := next((name for name in args.remove if name not in names), None):
            place = "in this ad" if args.id else "everywhere"
            raise Missing(f"no pronunciation of {unknown!r} {place}", remedy="list them without --remove")
        kept = {name: words for name, words in names.items() if name not in args.remove}
        view = client.call("PUT", path, json={"names": kept}).json()
    if args.json:
        print_json(view)
        return
    own = [(name, words, "this ad" if args.id else "everywhere") for name, words in view["names"].items()]
    of_owner = view.get("ownerNames") or {}
    own += [(name, words, "everywhere") for name, words in of_owner.items() if name not in view["names"]]
    rows = [(text(name), text(place), text(words)) for name, words, place in sorted(own)]
    print_table(("NAME", "WHERE", "SPOKEN AS"), rows, "No name has a pronunciation of its own.")


def _pronunciation(given: str) -> tuple[str, str]:
    """Return a name and how it is spoken."""
    name, _, words = given.partition("=")
    if not (name.strip() and words.strip()):
        raise Invalid(f"{given!r} is no pronunciation", remedy='write it as "Miel=mee-ell"')
    return name.strip(), words.strip()
