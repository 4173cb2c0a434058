// Runs the browser tests: `node main.mjs OPTIONS [PART OF A NAME]`; prints a report as JSON.
import { runTests } from "./harness.mjs";
import "./views.mjs";
import "./journeys.mjs";
import "./versions.mjs";
import "./hostile.mjs";
import "./limits.mjs";

await runTests(process.argv[3] ?? "");
// The storage that a server started may hold its pipes a while longer.
process.exit(0);
