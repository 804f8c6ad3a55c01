// A token server for docker-registry, as its documentation describes the protocol.

import { createSign, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http from 'node:http'

import { certify } from './certificate.mjs'
import { closeServer, listen, portOf } from './listen.mjs'

export const SERVICE = 'registry.test'
const ISSUER = 'token-server.test'

const base64url = (data) => Buffer.from(data).toString('base64url')

/** Gives tokens to one user for all repositories, and to each tenant for those that begin with its name. */
export class TokenServer {
  /** Every request: its method, and the kind of its credential. */
  requests = []
  /** Lifetime of the tokens that it names to clients, in seconds. */
  expiresIn = 300
  #server
  #certificate
  #key

  static async start(folder, known) {
    const server = new TokenServer(folder, known)
    await listen(server.#server)
    return server
  }

  constructor(folder, known) {
    const { cert, key } = certify(folder, ['token-server.test'])
    this.certificateFile = cert
    this.#certificate = new X509Certificate(readFileSync(cert))
    this.#key = readFileSync(key)
    this.#server = http.createServer((request, response) => this.#handle(request, response, known))
  }

  get url() {
    return `http://127.0.0.1:${portOf(this.#server)}/token`
  }

  /** The section of docker-registry's configuration that trusts this server. */
  get configuration() {
    return `auth: {token: {realm: "${this.url}", service: "${SERVICE}", issuer: "${ISSUER}", rootcertbundle: "${this.certificateFile}"}}`
  }

  async #handle(request, response, { user, password, refreshToken, tenants = [] }) {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const isPost = request.method === 'POST'
    const query = isPost ? new URLSearchParams(Buffer.concat(chunks).toString()) : new URL(request.url, 'http://localhost').searchParams
    const sends = (name, secret) => request.headers.authorization === `Basic ${Buffer.from(`${name}:${secret}`).toString('base64')}`
    const isKnown = isPost ? query.get('refresh_token') === refreshToken : sends(user, password)
    const tenant = isPost ? undefined : tenants.find((one) => sends(one.user, one.password))
    const credential = isPost ? 'refresh token' : request.headers.authorization ? 'password' : 'none'
    this.requests.push({ method: request.method, credential, scope: query.get('scope') })
    if (credential !== 'none' && !isKnown && !tenant) return void response.writeHead(401).end()
    const [, name, actions] = (query.get('scope') ?? '').split(':')
    const isAllowed = isKnown || ['public', tenant?.user].includes(name?.split('/')[0])
    const token = this.token(name, isAllowed ? actions?.split(',') : [])
    const answer = isPost ? { access_token: token } : { token }
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...answer, expires_in: this.expiresIn }))
  }

  /** A token for a repository. */
  token(name, actions = ['pull', 'push']) {
    const now = Math.floor(Date.now() / 1000)
    const header = { typ: 'JWT', alg: 'ES256', x5c: [this.#certificate.raw.toString('base64')] }
    const claims = {
      iss: ISSUER,
      sub: 'test',
      aud: SERVICE,
      exp: now + 300,
      nbf: now - 10,
      iat: now,
      jti: String(Math.random()),
      access: name ? [{ type: 'repository', name, actions }] : [],
    }
    const signed = `${base64url(JSON.stringify(header))}.${base64url(JSON.stringify(claims))}`
    const signature = createSign('SHA256').update(signed).sign({ key: this.#key, dsaEncoding: 'ieee-p1363' })
    return `${signed}.${base64url(signature)}`
  }

  stop() {
    return closeServer(this.#server)
  }
}
