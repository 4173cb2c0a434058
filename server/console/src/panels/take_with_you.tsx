// "Take it with you": what a workspace gives as files, from a list. A file that cannot be made says why on the page.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { send } from "../api.ts";
import { attempt, mayWrite } from "../store.ts";
import { Icon } from "../ui/icon.tsx";

/** A file: its name here, its address, what it is for, and what is made before it, such as a rendering. */
export type Takeaway = [label: string, address: string, purpose?: string, make?: () => Promise<unknown>];

async function save(address: string, make?: () => Promise<unknown>): Promise<void> {
  if (mayWrite.value) await make?.();
  const reply = await send("GET", address);
  const named = /filename\*=UTF-8''([^;]+)/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1] ?? "preview.html";
  const url = URL.createObjectURL(await reply.blob());
  Object.assign(document.createElement("a"), { href: url, download: decodeURIComponent(named) }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function TakeWithYou({ files, children }: { files: Takeaway[]; children?: ComponentChildren }) {
  const [busy, setBusy] = useState("");
  const take = async (event: Event, address: string, make?: () => Promise<unknown>) => {
    event.preventDefault();
    if (busy) return;
    setBusy(address);
    await attempt(save(address, make));
    setBusy("");
  };
  return (
    <section class="part" aria-labelledby="take">
      <h3 id="take">Take it with you</h3>
      <ul class="takeaways">
        {files.map(([label, address, purpose, make]) => (
          <li key={address}>
            <a class="button small" download href={address} aria-busy={busy === address} onClick={(event) => void take(event, address, make)}><Icon name="down" size={16} />{make && busy === address ? "Rendering …" : label}</a>
            {purpose && <span class="help">{purpose}</span>}
          </li>
        ))}
      </ul>
      {children}
    </section>
  );
}
