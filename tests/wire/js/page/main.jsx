import { createRoot } from "react-dom/client";
import { chosen } from "./view.jsx";

window.thread = chosen.thread;
const { Page } = chosen.hook === "legacy" ? await import("./legacy.jsx") : await import("./current.jsx");
createRoot(document.getElementById("root")).render(<Page />);
