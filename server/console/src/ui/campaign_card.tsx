// A campaign as a card.
import { money, valueText, type Campaign } from "../panels/campaign_data.ts";
import { MakeOf } from "../panels/make_of.tsx";

export function CampaignCard({ campaign, marked = false }: { campaign: Campaign; marked?: boolean }) {
  return (
    <li class={marked ? "campaign marked" : "campaign"} id={`campaign-${campaign.id}`} tabIndex={-1}>
      <div class="campaign-head">
        <strong>{campaign.company}</strong>
        <code class="muted">{campaign.id}</code>
      </div>
      {campaign.brand && campaign.brand !== campaign.company && <p class="muted">{campaign.brand}</p>}
      {campaign.offer ? <p class="campaign-offer">{campaign.offer}</p> : <p class="help">No offer</p>}
      <p class="campaign-text">{campaign.campaign_text}</p>
      <p class="tags">
        {campaign.channel && <span class="tag">{valueText(campaign.channel)}</span>}
        {campaign.imagery_sentiment && <span class="tag">{campaign.imagery_sentiment}</span>}
        {campaign.primary_product && <span class="tag">{campaign.primary_product}</span>}
        {campaign.key_value_props.map((one) => <span key={one} class="tag">{one}</span>)}
      </p>
      <p class="meta num"><span>{campaign.capture_date ?? "no date"}</span>{campaign.spend !== null && <span>spend {money(campaign.spend, campaign.currency)}</span>}</p>
      {campaign.offer && <p><MakeOf label="Make an ad of this" url="/api/ads" body={{ campaignIds: [campaign.id] }} /></p>}
    </li>
  );
}
