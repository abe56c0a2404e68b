// An OpenID provider (npm oidc-provider) that tests can talk to, and tell what to do by lines of JSON on stdin.
//
//   {"do": "rotate"}                 sign with new keys, and forget the old ones
//   {"do": "add", "resource": {…}}   issue tokens for one more resource
//   {"do": "stop"} {"do": "start"}   answer nothing but 503, and answer again

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { Provider, errors } = await import(pathToFileURL(`${process.env.NODE_PATH}/oidc-provider/lib/index.js`).href);
const { path = '', clients } = JSON.parse(process.argv[2]);
const resources = new Map();
const stored = new Map();
let provider, handle;
let stopped = false;
let asked = {};

class Memory {
  constructor(kind) { this.kind = kind; }
  key(id) { return `${this.kind}:${id}`; }
  async upsert(id, payload) { stored.set(this.key(id), payload); }
  async find(id) { return stored.get(this.key(id)); }
  async findByUid(uid) { return [...stored].find(([key, value]) => key.startsWith(`${this.kind}:`) && value.uid === uid)?.[1]; }
  async findByUserCode() {}
  async destroy(id) { stored.delete(this.key(id)); }
  async revokeByGrantId(grant) {
    for (const [key, value] of stored) if (value.grantId === grant) stored.delete(key);
  }
  async consume(id) { stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
}

function keys() {
  const pairs = [['rsa', { modulusLength: 2048 }], ['ec', { namedCurve: 'P-256' }], ['ed25519', {}]];
  return pairs.map(([kind, options]) => ({
    ...generateKeyPairSync(kind, options).privateKey.export({ format: 'jwk' }),
    kid: randomUUID(),
    use: 'sig',
  }));
}

function build(issuer) {
  provider = new Provider(issuer, {
    adapter: Memory,
    clients,
    jwks: { keys: keys() },
    cookies: { keys: [randomUUID()] },
    scopes: ['openid', 'offline_access'],
    findAccount: (_, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
    ttl: { Session: 3600, Interaction: 3600, Grant: 3600, IdToken: 3600, AccessToken: (_, token) => token.resourceServer?.accessTokenTTL ?? 600, ClientCredentials: (_, token) => token.resourceServer?.accessTokenTTL ?? 600 },
    features: {
      clientCredentials: { enabled: true },
      dPoP: { enabled: true },
      registration: { enabled: true },
      devInteractions: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === 'resource-server' },
      revocation: { enabled: true, allowedPolicy: (_, client, token) => token.clientId === client.clientId },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, uri) => {
          const resource = resources.get(uri);
          if (!resource) throw new errors.InvalidTarget(`unknown resource ${uri}`);
          const jwt = { sign: { alg: resource.alg ?? 'RS256' } };
          return {
            scope: resource.scope,
            audience: resource.audience ?? uri,
            accessTokenTTL: resource.ttl ?? 600,
            accessTokenFormat: resource.opaque ? 'opaque' : 'jwt',
            ...(resource.opaque ? {} : { jwt }),
          };
        },
      },
    },
  });
  handle = provider.callback();
}

const server = createServer((request, response) => {
  const name = new URL(request.url, 'http://x').pathname;
  asked[name] = (asked[name] ?? 0) + 1;
  if (stopped) {
    response.writeHead(503).end();
  } else if (path && !request.url.startsWith(`${path}/`)) {
    response.writeHead(404).end();
  } else {
    request.originalUrl = request.url;
    request.url = request.url.slice(path.length);
    handle(request, response);
  }
});

console.warn = console.info = () => {};  // warnings that this provider is for tests
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}${path}`;
  build(issuer);
  process.stdout.write(`${JSON.stringify({ issuer })}\n`);
  createInterface({ input: process.stdin }).on('line', (line) => {
    const order = JSON.parse(line);
    let answer = {};
    if (order.do === 'rotate') build(issuer);
    else if (order.do === 'add') resources.set(order.uri, order.resource);
    else if (order.do === 'asked') answer = asked;
    else stopped = order.do === 'stop';
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }).on('close', () => process.exit(0));
});
