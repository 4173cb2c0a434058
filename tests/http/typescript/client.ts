// A client of the API without a cast: its types are those that openapi-typescript makes of the document.
import type { components, operations } from "./api.js";

type Schemas = components["schemas"];
type Body<Name extends "generateAd"> = operations[Name]["requestBody"]["content"]["application/json"];

declare const process: { argv: string[] };
const server = process.argv[2] ?? "";

async function send(method: string, path: string, body?: unknown) {
  const headers = { "Content-Type": "application/json" };
  const reply = await fetch(server + path, { method, headers, body: body ? JSON.stringify(body) : null });
  if (!reply.ok) {
    const problem: Schemas["ApiError"] = await reply.json();
    throw new Error(`${problem.error}: ${problem.remedy ?? problem.type}`);
  }
  return reply.json();
}

const brief: Body<"generateAd"> = {
  adId: "typed",
  brief: { clientDescription: "Miel, a bakery in Lyon", targetAudience: "families", duration: 30 },
  provider: "offline",
};
const turn: Schemas["AdTurn"] = await send("POST", "/api/ai/generate", brief);
const ad: Schemas["AdView"] = await send("GET", `/api/ads/${turn.adId}`);
const texts: string[] = ad.streams.voices.newest?.data.voiceTracks.map((track) => track.text) ?? [];
const page: Schemas["CampaignPage"] = await send("GET", "/api/campaigns?limit=2");
const companies: string[] = page.campaigns.map((campaign) => campaign.company);
console.log(JSON.stringify({ made: turn.drafts, texts, companies }));
