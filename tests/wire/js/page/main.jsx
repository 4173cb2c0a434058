import { createRoot } from "react-dom/client";
import { parameters } from "./view.jsx";

window.thread = parameters.thread;
const { Page } = parameters.hook === "legacy" ? await import("./legacy.jsx") : await import("./current.jsx");
createRoot(document.getElementById("root")).render(<Page />);
