// A list in another order. Pure functions.

/** The list with `item` at index `to`; unchanged if it is not in the list. */
export function moved<T>(list: T[], item: T, to: number): T[] {
  const from = list.indexOf(item);
  return from < 0 ? list : list.toSpliced(from, 1).toSpliced(Math.max(0, to), 0, item);
}
