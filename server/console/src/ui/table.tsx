// A table that is sorted by a click on a heading, and scrolls by itself where it is too wide.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

export interface Column<Row> {
  name: string;
  title: string;
  /** Sorts by this value; a column without one cannot be sorted. */
  value?: (row: Row) => string | number | null;
  cell: (row: Row) => ComponentChildren;
  number?: boolean;
}

export function DataTable<Row>({ caption, columns, rows, keyOf }: {
  caption: string; columns: Column<Row>[]; rows: Row[]; keyOf: (row: Row) => string;
}) {
  const [sort, setSort] = useState<{ name: string; down: boolean } | null>(null);
  const sorted = useMemo(() => {
    const value = columns.find((one) => one.name === sort?.name)?.value;
    if (!sort || !value) return rows;
    const order = (a: Row, b: Row) => {
      const [left, right] = [value(a), value(b)];
      if (left === right) return 0;
      if (left === null) return 1;
      if (right === null) return -1;
      return (left < right ? -1 : 1) * (sort.down ? -1 : 1);
    };
    return [...rows].sort(order);
  }, [rows, columns, sort]);
  return (
    <div class="table-wrap" tabIndex={0} role="region" aria-label={caption}>
      <table class="table">
        <caption class="sr-only">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.number ? "num right" : undefined}
                aria-sort={sort?.name === column.name ? (sort.down ? "descending" : "ascending") : undefined}>
                {column.value
                  ? <button type="button" onClick={() => setSort({ name: column.name, down: sort?.name === column.name ? !sort.down : Boolean(column.number) })}>
                      {column.title}{sort?.name === column.name && <span aria-hidden="true">{sort.down ? " ↓" : " ↑"}</span>}
                    </button>
                  : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={keyOf(row)}>{columns.map((column) => <td key={column.name} class={column.number ? "num right" : undefined}>{column.cell(row)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
