// "Take it with you": what a workspace gives as files, from a list. A file that cannot be made says why on the page.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { send } from "../api.ts";
import { attempt } from "../store.ts";
import { Icon } from "../ui/icon.tsx";

/** A file: its name here, its address, and what it is for. */
export type Takeaway = [label: string, address: string, purpose?: string];

async function save(address: string): Promise<void> {
  const reply = await send("GET", address);
  const named = /filename\*=UTF-8''([^;]+)/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1] ?? "preview.html";
  const url = URL.createObjectURL(await reply.blob());
  Object.assign(document.createElement("a"), { href: url, download: decodeURIComponent(named) }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function TakeWithYou({ files, children }: { files: Takeaway[]; children?: ComponentChildren }) {
  const [busy, setBusy] = useState("");
  const take = async (event: Event, address: string) => {
    event.preventDefault();
    setBusy(address);
    await attempt(save(address));
    setBusy("");
  };
  return (
    <section class="part" aria-labelledby="take">
      <h3 id="take">Take it with you</h3>
      <ul class="takeaways">
        {files.map(([label, address, purpose]) => (
          <li key={address}>
            <a class="button small" download href={address} aria-busy={busy === address} onClick={(event) => void take(event, address)}><Icon name="down" size={16} />{label}</a>
            {purpose && <span class="help">{purpose}</span>}
          </li>
        ))}
      </ul>
      {children}
    </section>
  );
}
