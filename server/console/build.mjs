// Bundles the console into static/: `node build.mjs`, or `node build.mjs --watch` while developing.
// Writes app.js, app.css and an index.html that names both with a hash of their content.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { context } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const out = join(root, "static");
const watch = process.argv.includes("--watch");

/** The scripts that the page's own imports at its start; the browser reads them at once, not one after the other. */
function firstScripts({ outputs }, name = "static/app.js", known = new Set()) {
  for (const { kind, path } of outputs[name].imports) {
    if (kind !== "import-statement" || known.has(path)) continue;
    known.add(path);
    firstScripts({ outputs }, path, known);
  }
  return [...known].map((path) => `<link rel="modulepreload" href="/console/${basename(path)}">`).join("");
}

async function writeIndex(metafile) {
  const page = await readFile(join(root, "src", "index.html"), "utf8");
  const hashes = await Promise.all(
    ["app.js", "app.css"].map(async (name) => {
      const content = await readFile(join(out, name));
      return [name, createHash("sha256").update(content).digest("hex").slice(0, 16), content];
    }),
  );
  const named = hashes.reduce((text, [name, hash]) => text.replace(`/console/${name}`, `/console/${name}?v=${hash}`), page);
  await writeFile(join(out, "index.html"), named.replace("</head>", `${firstScripts(metafile)}</head>`));
  return hashes.map(([name, , content]) => `${name} ${(gzipSync(content).length / 1000).toFixed(1)} kB`).join(", ");
}

const index = {
  name: "index",
  setup(build) {
    build.onEnd(async (result) => {
      if (result.errors.length === 0) console.log(`built ${await writeIndex(result.metafile)} (gzipped)`);
    });
  },
};

await mkdir(out, { recursive: true });
const bundle = await context({
  absWorkingDir: root,
  entryPoints: { app: "src/app.tsx" },
  outdir: out,
  bundle: true,
  metafile: true,
  minify: !watch,
  sourcemap: watch ? "inline" : false,
  format: "esm",
  // What is imported when it is needed, such as the encoder of films, is a file of its own.
  splitting: true,
  chunkNames: "[name]-[hash]",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  plugins: [index],
});
if (watch) {
  await bundle.watch();
} else {
  try {
    await bundle.rebuild();
  } catch {
    process.exitCode = 1; // esbuild has printed the errors
  }
  await bundle.dispose();
}
