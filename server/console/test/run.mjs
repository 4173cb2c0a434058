// Bundles test/*.test.ts and runs them with Node's own test runner.
import { spawnSync } from "node:child_process";
import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, ".out");
const names = (await readdir(here)).filter((name) => name.endsWith(".test.ts"));
await rm(out, { recursive: true, force: true });
await build({
  entryPoints: names.map((name) => join(here, name)), outdir: out, bundle: true, platform: "node", format: "esm",
  target: "node20", outExtension: { ".js": ".mjs" }, sourcemap: "inline", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning",
});
const files = names.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
const { status } = spawnSync(process.execPath, ["--test", "--enable-source-maps", ...files], { stdio: "inherit" });
process.exitCode = status ?? 1;
