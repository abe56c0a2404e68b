// Markdown as sanitised HTML. Loaded when the first Markdown is shown.

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

const UNSAFE = /^\s*(javascript|vbscript|data):/i;

const markdown = new MarkdownIt({ html: false, linkify: true, typographer: false });
markdown.validateLink = (url) => !UNSAFE.test(url);
// Links and pictures become inert data: the component resolves them against the URI of the resource.
markdown.renderer.rules.image = (tokens, index) => {
  const token = tokens[index]!;
  const escape = markdown.utils.escapeHtml;
  return `<span data-image="${escape(String(token.attrGet("src") ?? ""))}">${escape(token.content)}</span>`;
};
markdown.renderer.rules.link_open = (tokens, index, options, _, self) => {
  const token = tokens[index]!;
  const href = String(token.attrGet("href") ?? "");
  token.attrs = [["data-href", href]];
  return self.renderToken(tokens, index, options);
};

// A comment is not shown, whether it is a block or in a line.
markdown.block.ruler.before("paragraph", "comment", (state, start, end, silent) => {
  const from = state.bMarks[start]! + state.tShift[start]!;
  if (!state.src.startsWith("<!--", from)) return false;
  const close = state.src.indexOf("-->", from + 4);
  let line = start;
  while (line < end && close >= 0 && state.eMarks[line]! < close + 3) line++;
  if (close < 0 || line >= end || state.src.slice(close + 3, state.eMarks[line]).trim()) return false;
  if (!silent) state.line = line + 1;
  return true;
}, { alt: ["paragraph", "reference", "blockquote", "list"] });
markdown.inline.ruler.before("html_inline", "comment", (state) => {
  const close = state.src.startsWith("<!--", state.pos) ? state.src.indexOf("-->", state.pos + 4) : -1;
  if (close < 0) return false;
  state.pos = close + 3;
  return true;
});

// Items of task lists begin with a box.
markdown.core.ruler.push("tasks", ({ tokens }) => {
  tokens.forEach((token, index) => {
    const first = token.children?.[0];
    if (token.type !== "inline" || first?.type !== "text" || tokens[index - 2]?.type !== "list_item_open") return;
    first.content = first.content.replace(/^\[( |x|X)\] /, (_, mark: string) => (mark === " " ? "☐ " : "☑ "));
  });
});

/** Render Markdown; front matter is removed. The result is a TrustedHTML if the browser has Trusted Types. */
export function renderMarkdown(text: string): string {
  const body = text.replace(/^---\r?\n[\s\S]*?\r?\n---[ \t]*(\r?\n|$)/, "");
  const html = markdown.render(body);
  return DOMPurify.sanitize(html, {
    RETURN_TRUSTED_TYPE: true,
    FORBID_TAGS: ["style", "form", "input", "button", "img", "svg", "math", "iframe"],
    FORBID_ATTR: ["style", "id"],
  }) as unknown as string;
}
