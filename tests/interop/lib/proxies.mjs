// Real proxies in front of our server, configured by the snippets of docs/how-to/proxy.md.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { userInfo } from 'node:os'
import path from 'node:path'
import tls from 'node:tls'

import { certify } from './certificate.mjs'
import { newFolder } from './folders.mjs'
import { accepts } from './listen.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { Program } from './program.mjs'

const GUIDE = new URL('../../../docs/how-to/proxy.md', import.meta.url)
const GUIDE_OF_MACHINES = new URL('../../../docs/how-to/use-several-machines.md', import.meta.url)

/** The names of the snippets. No resolver knows them. */
export const APP = 'example.org'
export const SITES = 'pages.example.net'

/** The host on which our servers await a PROXY header. */
export const PROXY_PROTOCOL_HOST = '127.0.0.2'

/** How each proxy runs in the foreground, with all of its files in one folder. The name is that of the snippet's code block. */
const kinds = {
  nginx: {
    configuration: (snippet, folder) => {
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`)
      return `daemon off; worker_processes 1; user ${userInfo().username}; pid ${folder}/pid; error_log stderr;
        events { worker_connections 1024; } http { access_log off; ${temporary.join(' ')}\n${snippet}\n}`
    },
    command: (file, folder) => ['nginx', '-p', folder, '-e', 'stderr', '-c', file],
  },
  caddy: {
    configuration: (snippet, _, { http, https }) =>
      `{\nadmin off\nhttp_port ${http}\nhttps_port ${https}\nservers {\nprotocols h1 h2\n}\n}\n${snippet}`,
    command: (file) => ['caddy', 'run', '--adapter', 'caddyfile', '--config', file],
  },
  haproxy: {
    configuration: (snippet) => snippet,
    command: (file) => ['haproxy', '-db', '-f', file],
  },
  'haproxy-tcp': {
    host: PROXY_PROTOCOL_HOST,
    configuration: (snippet) => snippet,
    command: (file) => ['haproxy', '-db', '-f', file],
  },
}

export const proxyNames = Object.keys(kinds)

/** Whether a proxy names its clients in a PROXY header, so that the server must listen on `PROXY_PROTOCOL_HOST`. */
export const sendsProxyHeader = (name) => kinds[name].host === PROXY_PROTOCOL_HOST

/** The only code block of a guide in that language. */
function snippetOf(name, guide = GUIDE) {
  const blocks = [...readFileSync(guide, 'utf8').matchAll(/^```([\w-]+)\n(.*?)^```$/gms)].filter(([, language]) => language === name)
  assert.equal(blocks.length, 1, `${guide} has one snippet for ${name}`)
  return blocks[0][2]
}

/** Replaces a placeholder, which must be in the snippet. */
function substitute(snippet, placeholder, replacement) {
  assert.ok(snippet.match(placeholder), `the snippet contains ${placeholder}`)
  return snippet.replaceAll(placeholder, replacement)
}

/** A folder with the certificate of the snippets, which it returns too. */
function certified() {
  const folder = newFolder()
  const { cert, key } = certify(folder, [APP, `*.${SITES}`])
  const certificate = readFileSync(cert, 'utf8')
  writeFileSync(path.join(folder, 'watchfire.pem'), certificate + readFileSync(key, 'utf8'))
  return { folder, certificate }
}

/** Puts the ports and the folder of the certificate into a snippet for nginx or HAProxy. */
function substitutePorts(snippet, { http, https }) {
  snippet = substitute(snippet, /(?<=^\s*(listen|bind) (\S*:)?)443\b/gm, https)
  return substitute(snippet, /(?<=^\s*(listen|bind) (\S*:)?)80\b/gm, http)
}

/** Starts HAProxy in front of three machines, with the snippet of docs/how-to/use-several-machines.md. */
export async function startBalancer(machines) {
  const [http, https] = await listeningPorts(2)
  const { folder, certificate } = certified()
  let snippet = substitutePorts(snippetOf('haproxy-machines', GUIDE_OF_MACHINES), { http, https })
  snippet = substitute(snippet, /\/etc\/ssl\/watchfire\//g, `${folder}/`)
  for (const [at, { port }] of machines.entries())
    snippet = substitute(snippet, new RegExp(`10\\.0\\.0\\.${at + 1}:4000`, 'g'), `127.0.0.1:${port}`)
  return run(snippet, kinds.haproxy.command, { folder, certificate, ports: { http, https } })
}

/** Starts the proxy of that name in front of a server, on these ports. */
export async function startProxy(name, server, { http, https }) {
  const { configuration, command } = kinds[name]
  const { folder, certificate } = certified()

  let snippet = substitute(snippetOf(name), /127\.0\.0\.1:4000/g, `${kinds[name].host ?? '127.0.0.1'}:${server.port}`)
  snippet = substitute(snippet, /\/etc\/ssl\/watchfire\//g, `${folder}/`)
  if (name !== 'caddy') snippet = substitutePorts(snippet, { http, https })
  const text = configuration(snippet, folder, { http, https })
  return run(text, command, { folder, certificate, ports: { http, https } })
}

/** Starts a proxy with a configuration of the test's own, in front of the port `https`. Without TLS of its own. */
export function startWith(name, text, https, certificate) {
  return run(text, kinds[name].command, { folder: newFolder(), certificate, ports: { https } })
}

async function run(text, command, { folder, certificate, ports }) {
  const file = path.join(folder, 'configuration')
  writeFileSync(file, text)
  const [program, ...args] = command(file, folder)
  // Debian's users do not have the folder of nginx and HAProxy in their path.
  const env = { PATH: `${process.env.PATH}:/usr/sbin`, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const proxy = new RunningProxy(program, args, { env }, { certificate, ports })
  try {
    for (const port of Object.values(ports)) await proxy.until(() => accepts(port), `port ${port} accepts connections`)
  } catch (error) {
    await proxy.stop()
    throw error
  }
  return proxy
}

class RunningProxy extends Program {
  #certificate
  #ports

  constructor(program, args, options, { certificate, ports }) {
    super(program, args, options)
    this.#certificate = certificate
    this.#ports = ports
  }

  /** The origin of the app, with the port of this proxy. */
  get origin() {
    return `https://${APP}:${this.#ports.https}`
  }

  /**
   * The server as a client at that loopback address sees it through this proxy, for `request` and `RawWebSocket`.
   * The client verifies the certificate.
   */
  seenFrom(localAddress = '127.0.0.1', host = new URL(this.origin).host) {
    const port = this.#ports.https
    const ca = this.#certificate
    const options = { host: '127.0.0.1', port, localAddress, ca, servername: APP, ALPNProtocols: ['http/1.1'] }
    return { host, dial: () => tls.connect(options) }
  }

  /** Like `seenFrom`, through a proxy without TLS. */
  plainFrom(localAddress) {
    const port = this.#ports.https
    return { host: `${APP}:${port}`, dial: () => net.connect({ host: '127.0.0.1', port, localAddress }) }
  }

  /** The server without TLS, for `request`. */
  get withoutTls() {
    return { host: APP, port: this.#ports.http }
  }
}
