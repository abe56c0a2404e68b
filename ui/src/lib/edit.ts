// Edits of JSON text: one member of the object changes, everything else stays as it was typed.

interface Member {
  key: string;
  start: number;
  valueStart: number;
  end: number;
}

const SPACE = /\s/;

function skipSpace(text: string, at: number): number {
  while (at < text.length && SPACE.test(text[at]!)) at++;
  return at;
}

function endOfString(text: string, at: number): number {
  for (at++; at < text.length && text[at] !== '"'; at++) if (text[at] === "\\") at++;
  return at + 1;
}

/** Return the index after the value that begins at an index. The text must be valid JSON. */
function endOfValue(text: string, at: number): number {
  if (text[at] === '"') return endOfString(text, at);
  let depth = 0;
  for (; at < text.length; at++) {
    const char = text[at]!;
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === "{" || char === "[") depth++;
    else if (char === "}" || char === "]") {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (char === "," || SPACE.test(char))) return at;
  }
  return at;
}

function membersOf(text: string): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, 0) + 1;
  for (;;) {
    at = skipSpace(text, at);
    if (text[at] !== '"') return members;
    const start = at;
    const keyEnd = endOfString(text, at);
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = endOfValue(text, valueStart);
    members.push({ key: JSON.parse(text.slice(start, keyEnd)) as string, start, valueStart, end });
    at = skipSpace(text, end);
    if (text[at] !== ",") return members;
    at++;
  }
}

/** Return an error message if a text is not a JSON object, else null. */
export function problemOf(text: string): { word: "invalidJson" | "notObject"; message: string } | null {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return null;
    return { word: "notObject", message: "" };
  } catch (error) {
    return { word: "invalidJson", message: (error as Error).message };
  }
}

/** Return the text of a member's value, or null. The text must be a JSON object. */
export function memberText(text: string, key: string): string | null {
  const member = membersOf(text).findLast((each) => each.key === key);
  return member ? text.slice(member.valueStart, member.end) : null;
}

/** Set a member to a value, given as JSON text, or remove it. The text must be a JSON object. */
export function setMember(text: string, key: string, value: string | null): string {
  const members = membersOf(text);
  const index = members.findLastIndex((each) => each.key === key);
  const member = members[index];
  if (member && value !== null) return text.slice(0, member.valueStart) + value + text.slice(member.end);
  if (member) {
    const next = members[index + 1];
    if (next) return text.slice(0, member.start) + text.slice(next.start);
    const before = members[index - 1];
    return before ? text.slice(0, before.end) + text.slice(member.end) : "{}";
  }
  if (value === null) return text;
  const line = `${JSON.stringify(key)}: ${value}`;
  const last = members.at(-1);
  if (!last) return `{\n  ${line}\n}`;
  return `${text.slice(0, last.end)},\n  ${line}${text.slice(last.end)}`;
}
