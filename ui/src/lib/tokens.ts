// Tokens of highlighted code: classes and text, so that no HTML of the highlighter reaches the page.

export type Token = [className: string, text: string];

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/** Convert the output of highlight.js to the tokens of each line. */
export function tokenLines(html: string): Token[][] {
  const lines: Token[][] = [[]];
  const classes: string[] = [];
  for (const [piece, name] of html.matchAll(/<span class="([^"]*)">|<\/span>|[^<]+/g)) {
    if (name !== undefined) classes.push(name);
    else if (piece === "</span>") classes.pop();
    else {
      const text = piece.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]!);
      text.split("\n").forEach((part, index) => {
        if (index) lines.push([]);
        if (part) lines.at(-1)!.push([classes.join(" "), part]);
      });
    }
  }
  return lines;
}
