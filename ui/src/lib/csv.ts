// Parsing of comma, semicolon or tab separated values (RFC 4180).

/** Return the separator that the first line has most of. */
export function separatorOf(text: string, mimeType = ""): string {
  if (/tab-separated/.test(mimeType)) return "\t";
  const line = text.slice(0, text.search(/\r?\n|$/));
  return [",", ";", "\t"].reduce((best, each) => (line.split(each).length > line.split(best).length ? each : best));
}

/** Parse all rows. Quoted fields may have separators, quotes and line ends in them. */
export function parseCsv(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (quoted) {
      if (char !== '"') field += char;
      else if (text[at + 1] === '"') field += text[++at];
      else quoted = false;
    } else if (char === '"' && field === "") quoted = true;
    else if (char === separator) {
      row.push(field);
      field = "";
    } else if (char === "\n" || (char === "\r" && text[at + 1] === "\n")) {
      if (char === "\r") at++;
      rows.push([...row, field]);
      row = [];
      field = "";
    } else field += char;
  }
  if (field || row.length) rows.push([...row, field]);
  return rows;
}
