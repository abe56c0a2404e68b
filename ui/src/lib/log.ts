// Language definition for highlight.js of log files: times, levels, addresses and quoted texts.

import type { LanguageFn } from "highlight.js";

export const log: LanguageFn = () => ({
  name: "Log",
  contains: [
    { scope: "comment", begin: /\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?/ },
    { scope: "comment", begin: /\[\d\d\/\w{3}\/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]/ },
    { scope: "deletion", begin: /\b(?:EMERG(?:ENCY)?|ALERT|CRIT(?:ICAL)?|FATAL|ERR(?:OR)?|SEVERE)\b/i },
    { scope: "keyword", begin: /\b(?:WARN(?:ING)?|NOTICE)\b/i },
    { scope: "type", begin: /\b(?:INFO|DEBUG|TRACE)\b/i },
    { scope: "string", begin: /"/, end: /"|$/ },
    { scope: "number", begin: /\b\d{1,3}(?:\.\d{1,3}){3}\b/ },
  ],
});
