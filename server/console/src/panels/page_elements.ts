// The elements of a page's tree as a list. Pure functions.

export interface PageElement {
  id: string;
  type: string;
  label?: string;
  content?: string;
  children?: PageElement[];
}

/** All elements below the root in the order of the page, each with its depth from 0. */
export function elementsOf(root: PageElement, depth = -1): (PageElement & { depth: number })[] {
  const below = (root.children ?? []).flatMap((child) => elementsOf(child, depth + 1));
  return depth < 0 ? below : [{ ...root, depth }, ...below];
}
