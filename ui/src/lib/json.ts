// JSON as values to show: numbers that JavaScript would round keep their text.

export class RawNumber {
  constructor(readonly source: string) {}
}

export type Shown = null | boolean | number | string | RawNumber | Shown[] | { [name: string]: Shown };
type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;

const exact: Reviver = (_, value, context) =>
  typeof value === "number" && context?.source && !Number.isSafeInteger(value) && String(value) !== context.source
    ? new RawNumber(context.source)
    : value;

/** Parse JSON, or JSON lines as an array. Raises: SyntaxError. */
export function parseJson(text: string): Shown {
  try {
    return JSON.parse(text, exact) as Shown;
  } catch (error) {
    const lines = text.split("\n").filter((line) => line.trim());
    if (lines.length < 2 || !/^\s*[[{]/.test(lines[0]!)) throw error;
    return lines.map((line) => JSON.parse(line, exact) as Shown);
  }
}

export const isStruct = (value: Shown): value is { [name: string]: Shown } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);

const cell = (value: Shown | undefined): string => {
  if (value === undefined || value === null) return "";
  if (value instanceof RawNumber) return value.source;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

/** Return the rows of a page of a database table, which has facts about the table too; else the value itself. */
const rowsIn = (value: Shown): Shown =>
  isStruct(value) && Array.isArray(value.columns) && Array.isArray(value.rows) ? value.rows : value;

/** Return the URI of the next page of a database table, or null. */
export const nextRows = (value: Shown): string | null =>
  isStruct(value) && rowsIn(value) !== value && typeof value.next === "string" ? value.next : null;

/** Return rows of cells, header first, if the value is an array of objects, or a page of a table; else null. */
export function asTable(given: Shown): string[][] | null {
  const value = rowsIn(given);
  if (!Array.isArray(value) || !value.length || !value.every(isStruct)) return null;
  const columns = [...new Set(value.slice(0, 200).flatMap((row) => Object.keys(row as object)))];
  if (!columns.length || columns.length > 200) return null;
  return [columns, ...value.map((row) => columns.map((name) => cell((row as { [name: string]: Shown })[name])))];
}
