"""The brief of an ad from campaigns: their offers and words as written, and nothing that they do not say."""

from collections.abc import Iterator, Sequence
from typing import Final

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.cards import shorten
from callsheet.state.errors import Invalid
from callsheet.state.languages import detect

_QUOTED: Final = (3, 400)
"""Characters of exact words that a brief may ask for."""
_MOST_PRODUCT: Final = 40
"""Most characters of a product's name beside them."""


_NO_QUOTES: Final = str.maketrans(dict.fromkeys('"“”„', "'"))
_MOST_TEXT: Final = 300
"""Most characters of a campaign's own text, which one line has so that no sentence of it reads as a wish."""


def offer_of(campaign: Campaign) -> str:
    """Return what a campaign offers: its offer, else its value propositions; empty for neither."""
    return campaign.offer or ", ".join(campaign.key_value_props)


def campaign_brief(campaigns: Sequence[Campaign], client: str, wish: str) -> dict[str, str]:
    """Return a brief that has the offers and the own texts of campaigns, in their language if it is known.

    Raises `Invalid` if nobody is named for whom it is, or none of the campaigns offers anything.
    """
    companies = list(dict.fromkeys(one.company for one in campaigns))
    if len(companies) > 1 and not client.strip():
        raise Invalid(
            f"the campaigns are of {', '.join(companies)[:300]}, and an ad is for one client",
            remedy="send `client`, or campaigns of one company",
        )
    if not any(map(offer_of, campaigns)):
        raise Invalid("none of the campaigns offers anything", remedy="choose campaigns with an offer")
    lines = [client.strip() or companies[0], *_offers(campaigns)]
    props = ", ".join(_value_props(campaigns))
    context = [f"Value propositions: {props}" if props else "", *map(_own_text, campaigns), wish.strip()]
    own = " ".join(f"{offer_of(one)} {one.campaign_text or one.full_campaign_text}" for one in campaigns)
    return {
        **({"language": language} if (language := detect(own)) else {}),
        "displayName": _display_name(lines[0], campaigns),
        "clientDescription": "\n".join(lines),
        "additionalContext": "\n".join(filter(None, context)),
    }


def _display_name(client: str, campaigns: Sequence[Campaign]) -> str:
    """Return the client, and the product or offer of its first campaign that has one."""
    about = next(one.primary_product or one.brand or offer_of(one) for one in campaigns if offer_of(one))
    name = client if about.casefold() in client.casefold() else f"{client}: {about}"
    return shorten(name)


def _offers(campaigns: Sequence[Campaign]) -> Iterator[str]:
    for campaign in campaigns:
        if offer := offer_of(campaign):
            product = campaign.primary_product or campaign.brand
            yield _exact_line(offer, product) or (f"{product}: {offer}" if product else offer)
        yield from (f"Incentive: {one}" for one in campaign.incentives)


def _exact_line(offer: str, product: str) -> str:
    """Return the line that has an offer spoken in its exact words; empty for one that cannot be quoted."""
    about = f", for the {product}" if product and len(product) <= _MOST_PRODUCT else ""
    can_quote = _QUOTED[0] <= len(offer) <= _QUOTED[1] and not set(offer) & set('"“”\n')
    return f"Must say{about}: “{offer}”" if can_quote else ""


def _own_text(campaign: Campaign) -> str:
    """Return the line that has a campaign's own text, with its language if that is known; else empty."""
    text = campaign.campaign_text or campaign.full_campaign_text
    language = detect(text)
    words = " ".join(text.translate(_NO_QUOTES).split())
    shown = words if len(words) <= _MOST_TEXT else f"{words[: _MOST_TEXT - 1]}…"
    return f"Text of the campaign{f' in {language.title()}' if language else ''}: “{shown}”" if words else ""


def _value_props(campaigns: Sequence[Campaign]) -> list[str]:
    return list(dict.fromkeys(one for campaign in campaigns for one in campaign.key_value_props))
