// URI templates (RFC 6570): their variables, and the URI that values make.

export interface Variable {
  name: string;
  explode: boolean;
  prefix: number | null;
}

interface Expression {
  operator: string;
  variables: Variable[];
}

const RULES: Record<string, { first: string; separator: string; named: boolean; empty: string; reserved: boolean }> = {
  "": { first: "", separator: ",", named: false, empty: "", reserved: false },
  "+": { first: "", separator: ",", named: false, empty: "", reserved: true },
  "#": { first: "#", separator: ",", named: false, empty: "", reserved: true },
  ".": { first: ".", separator: ".", named: false, empty: "", reserved: false },
  "/": { first: "/", separator: "/", named: false, empty: "", reserved: false },
  ";": { first: ";", separator: ";", named: true, empty: "", reserved: false },
  "?": { first: "?", separator: "&", named: true, empty: "=", reserved: false },
  "&": { first: "&", separator: "&", named: true, empty: "=", reserved: false },
};

function parse(expression: string): Expression {
  const operator = /^[+#./;?&]/.exec(expression)?.[0] ?? "";
  const variables = expression
    .slice(operator.length)
    .split(",")
    .map((part) => {
      const [, name = "", prefix] = /^([^:*]+)(?::(\d+))?/.exec(part) ?? [];
      return { name, explode: part.endsWith("*"), prefix: prefix ? Number(prefix) : null };
    });
  return { operator, variables };
}

/** Return the variables of a template, in their order, each once. */
export function variablesOf(template: string): Variable[] {
  const found = [...template.matchAll(/\{([^}]+)\}/g)].flatMap(([, expression]) => parse(expression!).variables);
  return [...new Map(found.map((variable) => [variable.name, variable])).values()];
}

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
const encodeReserved = (text: string): string =>
  encodeURI(text).replace(/%25([0-9A-Fa-f]{2})/g, "%$1").replace(/%5B/g, "[").replace(/%5D/g, "]");

/** Expand a template. Variables without a value are left out. */
export function expand(template: string, values: Record<string, string | string[] | undefined>): string {
  return template.replace(/\{([^}]+)\}/g, (_, expression: string) => {
    const { operator, variables } = parse(expression);
    const rule = RULES[operator]!;
    const write = rule.reserved ? encodeReserved : encode;
    const parts = variables.flatMap(({ name, explode, prefix }) => {
      const value = values[name];
      if (value === undefined || (Array.isArray(value) && !value.length)) return [];
      const texts = (Array.isArray(value) ? value : [prefix ? [...value].slice(0, prefix).join("") : value]).map(write);
      const named = (text: string) => (rule.named ? (text ? `${name}=${text}` : `${name}${rule.empty}`) : text);
      return explode ? texts.map(named) : [named(texts.join(","))];
    });
    return parts.length ? rule.first + parts.join(rule.separator) : "";
  });
}
