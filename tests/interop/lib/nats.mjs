// Real NATS servers that form a cluster, and connections to them that a test can cut.

import net from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { GoPrograms } from './go-programs.mjs'
import { newFolder } from './folders.mjs'
import { accepts, listen } from './listen.mjs'
import { listeningPorts } from './listening-ports.mjs'
import { Program, run } from './program.mjs'

const programs = new GoPrograms({
  folder: 'nats',
  module: 'github.com/nats-io/nats-server/v2',
  packages: { 'nats-server': '' },
  keptIn: 'nats',
})

/** The reason why NATS cannot run here; false when it can. On the CI machine it must run. */
export const whyNoNats = programs.whyMissing

/** Builds nats-server unless it exists: takes some seconds and some megabytes of modules. */
export const buildNats = () => programs.build()

/** Builds nats-server for a benchmark, which expects it in `folder`. */
export const linkNats = (folder) => programs.link(folder)

export const natsServer = () => programs.path('nats-server')

/**
 * Starts servers with JetStream that know each other; each has a URL.
 * @param {string[] | ((at: number) => string[])} more further arguments, or a function that gives those of each server
 */
export async function startNats(count, more = [], { jetStream: hasJetStream = true } = {}) {
  const ports = await listeningPorts(2 * count)
  const [clients, routes] = [ports.slice(0, count), ports.slice(count)]
  const known = routes.map((port) => `nats://127.0.0.1:${port}`).join(',')
  const servers = clients.map((port, at) => {
    const cluster = ['--cluster_name', 'test', '--cluster', `nats://127.0.0.1:${routes[at]}`, '--routes', known]
    const jetStream = hasJetStream ? ['-js', '-sd', newFolder(), '-n', `nats-${at}`] : []
    const own = typeof more === 'function' ? more(at) : more
    // JetStream in a cluster of one would wait for a second server.
    return new NatsServer(port, ['-a', '127.0.0.1', '-p', String(port), ...jetStream, ...(count > 1 ? cluster : []), ...own])
  })
  await Promise.all(servers.map((server) => server.untilListening()))
  return servers
}

/** Writes accounts of servers that accept credentials files only into a folder; returns the paths of both sides. */
export async function writeCredentials(folder) {
  await run('go', ['run', './credentials', folder], { cwd: fileURLToPath(new URL('../nats', import.meta.url)) })
  return { server: path.join(folder, 'server.conf'), user: path.join(folder, 'user.creds') }
}

class NatsServer extends Program {
  #args

  constructor(port, args) {
    super(programs.path('nats-server'), args)
    this.#args = args
    this.port = port
    this.url = `nats://127.0.0.1:${port}`
  }

  untilListening() {
    return this.until(() => accepts(this.port), 'a NATS server listens')
  }

  /** Starts this server, which has ended, again. */
  async again() {
    const server = new NatsServer(this.port, this.#args)
    await server.untilListening()
    return server
  }

  /** Sends a request, such as one of JetStream's; returns the answer, which is JSON. */
  async request(subject, body = {}) {
    const payload = JSON.stringify(body)
    const socket = net.connect(this.port, '127.0.0.1')
    const lines = [`CONNECT {"verbose":false}`, 'SUB answer 1', `PUB ${subject} answer ${Buffer.byteLength(payload)}`, payload]
    socket.write(`${lines.join('\r\n')}\r\n`)
    let text = ''
    for await (const chunk of socket) {
      text += chunk
      const [, answer] = /MSG answer 1 \d+\r\n(.*)\r\n/.exec(text) ?? []
      if (answer !== undefined) return JSON.parse(answer)
    }
    throw new Error(`NATS ended the connection: ${text}`)
  }

  /** Kills it, like a power cut. */
  kill() {
    return this.stop('SIGKILL')
  }
}

/** A way to a NATS server that can be cut and opened again. */
export class Cuttable {
  url
  #listener
  #sockets = new Set()
  #isCut = false

  /** Listens on a free port, and passes connections on to this port. */
  static async to(port) {
    const cuttable = new Cuttable()
    cuttable.#listener = net.createServer((near) => cuttable.#connect(near, port))
    cuttable.url = `nats://127.0.0.1:${await listen(cuttable.#listener)}`
    return cuttable
  }

  /** Ends all connections, and refuses new ones until `open` is called. */
  cut() {
    this.#isCut = true
    for (const socket of this.#sockets) socket.destroy()
  }

  open() {
    this.#isCut = false
  }

  close() {
    this.cut()
    this.#listener.close()
  }

  #connect(near, port) {
    if (this.#isCut) return near.destroy()
    const far = net.connect(port, '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ]) {
      this.#sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        this.#sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  }
}
