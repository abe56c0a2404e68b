// A provider without registration (npm oidc-provider) that is set up like a well-known one: its endpoints, its issuer, its tokens.
//
//   {"do": "client", "redirect_uri": …}   accept the one client with this redirect URI
//   {"do": "ban", "login": …}             refuse this user from now on
//   {"do": "asked"}                       tell the parameters of the requests to the authorization and token endpoints

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer, get } from 'node:http';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const { Provider } = await import(pathToFileURL(`${process.env.NODE_PATH}/oidc-provider/lib/index.js`).href);
const { style } = JSON.parse(process.argv[2]);
const TENANT = '11111111-2222-3333-4444-555555555555';
const DISCOVERY = '/.well-known/openid-configuration';
const PATHS = { entra: `/${TENANT}/v2.0`, keycloak: '/realms/main' };
const path = PATHS[style] ?? '';
const banned = new Set();
const asked = [];
let provider, handle, origin, redirect;

const number = (login) => [...login].reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7);
const person = (login) => ({ sub: login, oid: `oid-${login}`, tid: TENANT, email: `${login}@example.org`, name: login });

function build(uri) {
  redirect = uri;
  const { port } = server.address();
  origin = `http://127.0.0.1:${port}`;
  const issuer = style === 'auth0' ? `${origin}/` : `${origin}${path}`;
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  provider = new Provider(issuer, {
    clients: [{
      client_id: 'carrel',
      client_secret: 'upstream secret',
      token_endpoint_auth_method: 'client_secret_post',
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
    }],
    jwks: { keys: [{ ...key, kid: randomUUID(), use: 'sig' }] },
    cookies: { keys: [randomUUID()] },
    scopes: ['openid', 'offline_access', 'read:user'],
    claims: { openid: ['sub', 'oid', 'tid'], email: ['email'], profile: ['name'] },
    conformIdTokenClaims: false,
    pkce: { required: () => true },
    findAccount: (_, login) => (banned.has(login) ? undefined : { accountId: login, claims: async () => person(login) }),
    issueRefreshToken: async () => style !== 'github',
    routes: style === 'github' ? { authorization: '/login/oauth/authorize', token: '/login/oauth/access_token' } : {},
    ttl: { Session: 3600, Interaction: 3600, Grant: 3600, IdToken: 3600, AccessToken: 600, RefreshToken: 3600 },
    rotateRefreshToken: true,
    features: { registration: { enabled: false }, devInteractions: { enabled: true } },
  });
  provider.use(async (context, next) => {
    await next();
    if (context.oidc && ['authorization', 'token'].includes(context.oidc.route)) {
      asked.push({ route: context.oidc.route, ...context.oidc.params });
    }
    if (style === 'github' && context.oidc?.route === 'token' && context.status === 400) context.status = 200;
  });
  handle = provider.callback();
}

async function user(request, response) {
  const token = await provider.AccessToken.find((request.headers.authorization ?? '').replace(/^Bearer /, ''));
  if (!token || banned.has(token.accountId)) return response.writeHead(401).end('{}');
  response.writeHead(200, { 'content-type': 'application/json' });
  return response.end(JSON.stringify({ id: number(token.accountId), login: token.accountId, email: null }));
}

function describe(response, issuer) {
  get(`${origin}${path}${DISCOVERY}`, (found) => {
    let text = '';
    found.on('data', (piece) => { text += piece; }).on('end', () => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...JSON.parse(text), issuer }));
    });
  });
}

const server = createServer((request, response) => {
  if (style === 'github' && request.url === '/user') user(request, response);
  else if (style === 'entra' && request.url === `/common/v2.0${DISCOVERY}`) describe(response, `${origin}/{tenantid}/v2.0`);
  else if (path && !request.url.startsWith(`${path}/`)) response.writeHead(404).end();
  else {
    request.originalUrl = request.url;
    request.url = request.url.slice(path.length);
    handle(request, response);
  }
});

console.warn = console.info = () => {};  // warnings that this provider is for tests
server.listen(0, '127.0.0.1', () => {
  build('http://127.0.0.1/callback');
  process.stdout.write(`${JSON.stringify({ origin })}\n`);
  createInterface({ input: process.stdin }).on('line', (line) => {
    const order = JSON.parse(line);
    if (order.do === 'client' && order.redirect_uri !== redirect) build(order.redirect_uri);
    if (order.do === 'ban') banned.add(order.login);
    process.stdout.write(`${JSON.stringify(order.do === 'asked' ? asked : {})}\n`);
  }).on('close', () => process.exit(0));
});
