// The elements of a page's tree as a list, and what of them people write. Pure functions.

export interface PageElement {
  id: string;
  type: string;
  label?: string;
  content?: string;
  attributes?: Record<string, string>;
  children?: PageElement[];
}

/** All elements below the root in the order of the page, each with its depth from 0. */
export function elementsOf(root: PageElement, depth = -1): (PageElement & { depth: number })[] {
  const below = (root.children ?? []).flatMap((child) => elementsOf(child, depth + 1));
  return depth < 0 ? below : [{ ...root, depth }, ...below];
}

/** Id of the page itself. */
export const ROOT = "page";
const LABEL: [attribute: string, label: string][] = [["label", "Label"]];
const FIELDS: Record<string, [attribute: string, label: string][]> = {
  page: [["title", "Title"], ["description", "Description"], ["lang", "Language"]], image: [["alt", "Text of the image"]],
  link: [["href", "Address"]], button: [["href", "Address"]], heading: [["level", "Level"]], form: [["action", "Address"]], input: LABEL, textarea: LABEL, select: LABEL,
};

/** Types that are their text: it can be written again once it was emptied. */
const WORDED = new Set(["heading", "text", "quote", "link", "button", "item", "option"]);

/** What a person may write of an element: its text, which has no attribute, and what a check of the page asks for. */
export function fieldsOf(element: PageElement): [attribute: string, label: string][] {
  return [...(element.content === undefined && !WORDED.has(element.type) ? [] : [["", "Text"] as [string, string]]), ...(FIELDS[element.type] ?? [])];
}
