// A list in another order. Pure functions.

/** The list with `item` at index `to`; unchanged if it is not in the list. */
export function moved<T>(list: T[], item: T, to: number): T[] {
  const from = list.indexOf(item);
  if (from < 0) return list;
  const rest = list.filter((_, i) => i !== from);
  const place = Math.max(0, Math.min(to, rest.length));
  return [...rest.slice(0, place), item, ...rest.slice(place)];
}
