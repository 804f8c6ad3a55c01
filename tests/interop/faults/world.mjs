// One run of a plan: machines, NATS servers, clients and publishers, and the history of what they did and saw.

import path from 'node:path'
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'

import { SignJWT } from 'jose'

import { CloseRecordingWebSocket } from '../lib/close-codes.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { API_KEY, api } from '../lib/http-api.mjs'
import { listeningPorts } from '../lib/listening-ports.mjs'
import { startNats } from '../lib/nats.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { Client, newestWay } from '../lib/test-client.mjs'
import { check } from './checker.mjs'
import { Machine, signal } from './machine.mjs'
import { TOPOLOGIES, nameOf, planOf, randomOf } from './plan.mjs'

const TOPICS = 4
const CLIENTS = 6
/** Between an answer and the next message of a publisher. */
const PACE_MS = 50
/** A publisher gives a message up that is not answered in this time, and so does a client a join. */
const ANSWER_MS = 5_000
/** After the last fault, all clients are joined and all publishers get answers within this time. */
const BACK_MS = 30_000
/** Then presence is the truth within this time. */
const PRESENCE_MS = 5_000
/** At the end, what was acknowledged arrives, and the clients that left are gone, within this time. */
const QUIET_MS = 10_000
const SECRET = 'an HS256 secret of 32 bytes or more'
const SETTINGS = {
  'server.drain_period': '500ms',
  'channels.rules': `[{ pattern = "kept:*", publish = "clients", presence = true, history = { messages = 10_000, bytes = "8MiB" } }]`,
  'auth.hs256_secret': SECRET,
  'api.key': API_KEY,
}

/** Runs the plan of a seed, and returns its history. `folder` is for the stores of the NATS servers. */
export async function run(seed, topology, folder) {
  const world = new World(seed, topology)
  try {
    await world.start(folder)
    for (const { afterMs, faults } of planOf(seed, topology)) {
      await pause(afterMs)
      await Promise.all(faults.map((fault) => world.inject(fault)))
      await world.settle()
    }
    await world.finish()
  } catch (error) {
    // The history until then is judged, too.
    world.trouble(error.stack)
  } finally {
    world.end()
  }
  return world.history
}

class World {
  history = { published: [], followers: [], presence: [], counts: [], troubles: [], faults: [] }
  #topology
  #random
  #started = performance.now()
  #nats = []
  #monitors = []
  /** @type {Machine[]} */
  #machines = []
  #clients = []
  #sockets = new Set()
  #publishing = []
  #isStopped = false
  /** While the network of all clients is away. */
  #isOffline = false

  constructor(seed, topology) {
    this.#topology = TOPOLOGIES[topology]
    this.#random = randomOf(seed)
  }

  #now() {
    return performance.now() - this.#started
  }

  trouble(text) {
    this.history.troubles.push({ at: this.#now(), text })
  }

  async start(folder) {
    const { machines, nats, isOwn, replicas } = this.#topology
    this.#monitors = await listeningPorts(nats)
    const more = (at) => ['-js', '-sd', path.join(folder, `nats-${at}`), '-n', `nats-${at}`, '-m', String(this.#monitors[at])]
    this.#nats = nats > 0 ? await startNats(nats, more) : []
    await Promise.all(this.#nats.map((_, at) => this.#untilHealthy(at)))
    const urls = this.#nats.map(({ url }) => url)
    const ports = await listeningPorts(machines.length)
    this.#machines = machines.map((processes, at) => {
      const cluster = { 'cluster.nats': JSON.stringify(isOwn ? [urls[at]] : urls), 'cluster.prefix': 'test.faults' }
      const histories = { 'cluster.history_replicas': replicas ?? 1 }
      return new Machine({ port: ports[at], processes, settings: { ...SETTINGS, ...(nats > 0 && { ...cluster, ...histories }) } })
    })
    await Promise.all(this.#machines.map((machine) => machine.start()))
    this.#started = performance.now()
    for (let at = 0; at < CLIENTS; at++) this.#clients.push(await this.#connect(at))
    for (let at = 0; at < TOPICS; at++) {
      this.#publishing.push(this.#publish(`kept:${at}`, `client-${at}`, this.#byClient(this.#clients[at], at)))
      this.#publishing.push(this.#publish(`kept:${at}`, `api-${at}`, this.#byApi(at)))
    }
    await this.#untilBack()
  }

  /** A client that joins all topics, and writes down what it sees, as docs/how-to/recover-missed-messages.md has it. */
  async #connect(at) {
    const name = `client-${at}`
    const jwt = new SignJWT({ channels: { join: ['kept:*'], publish: ['kept:*'] } }).setProtectedHeader({ alg: 'HS256' })
    const token = await jwt.setSubject(name).setExpirationTime('1h').sign(new TextEncoder().encode(SECRET))
    const connections = { count: 0 }
    const options = { transport: this.#transport(at, connections), params: { token }, timeout: ANSWER_MS, heartbeatIntervalMs: 3_000 }
    const delays = { reconnectAfterMs: () => 100, rejoinAfterMs: () => 100 }
    const client = new Client({ endpoint: 'ws://127.0.0.1:1/socket' }, newestWay, { ...options, ...delays })
    const channels = Array.from({ length: TOPICS }, (_, topic) => this.#follow(client, name, `kept:${topic}`))
    return {
      name,
      client,
      connections,
      channels: channels.map(({ channel }) => channel),
      presences: channels.map(({ presence }) => presence),
    }
  }

  #follow(client, name, topic) {
    const events = []
    this.history.followers.push({ client: name, topic, events })
    let position = null
    const channel = client.socket.channel(topic, () => ({ history: { after: position } }))
    const presence = new newest.Presence(channel)
    channel.on('note', ({ publisher, n }, ref) => {
      events.push({ at: this.#now(), kind: 'message', publisher, n, position: ref })
      position = ref
    })
    channel.join().receive('ok', (answer) => {
      events.push({ at: this.#now(), kind: 'joined', recovered: answer.recovered, position: answer.position })
      if (!answer.recovered) position = answer.position
    })
    return { channel, presence }
  }

  /** The connections of a client. Every other client stays with its machine, and the others take any at each connect. */
  #transport(at, connections) {
    const world = this
    const port = () => {
      if (world.#isOffline) return 1
      const machine = at % 2 === 0 ? at / 2 : Math.floor(world.#random() * world.#machines.length)
      return world.#machines[machine % world.#machines.length].port
    }
    return class extends CloseRecordingWebSocket {
      constructor(url, protocols) {
        super(url.replace(/:\d+\//, `:${port()}/`), protocols)
        world.#sockets.add(this)
        connections.count++
        this.on('close', () => world.#sockets.delete(this))
      }
    }
  }

  /**
   * Publishes 1, 2, … to a topic; each after the answer to the one before. The processes of one machine only promise the order of each
   * connection.
   */
  async #publish(topic, publisher, send) {
    for (let n = 1; !this.#isStopped; n++) {
      const message = { topic, publisher, n, at: this.#now(), acknowledged: null, position: null }
      this.history.published.push(message)
      const answer = await send(message)
      if (answer) {
        const line = this.#nats.length > 0 ? publisher : `${publisher} over ${answer.connection}`
        Object.assign(message, { acknowledged: this.#now(), position: answer.position ?? null, line })
      }
      await pause(PACE_MS)
    }
  }

  /** Sends over the channel of a client; gives the answer and the number of the connection, or undefined. */
  #byClient({ channels, connections }, topic) {
    return ({ publisher, n }) =>
      new Promise((resolve) => {
        const push = channels[topic].push('note', { publisher, n }, ANSWER_MS)
        push.receive('ok', ({ position }) => resolve({ position, connection: connections.count }))
        for (const status of ['error', 'timeout']) push.receive(status, () => resolve(undefined))
      })
  }

  /**
   * Sends over one connection to the HTTP API, and goes to another machine when it is lost. With machines, every other publisher repeats
   * a request until it is answered. Processes of one machine forget the names of requests when they end.
   */
  #byApi(at) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const repeats = this.#nats.length > 0 && at % 2 === 0
    let machine = at
    return async ({ topic, publisher, n }) => {
      const body = JSON.stringify({ topic, event: 'note', payload: { publisher, n } })
      for (;;) {
        const { port } = this.#machines[machine % this.#machines.length]
        const answer = await post(port, agent, body, repeats ? { 'Idempotency-Key': `${publisher}-${n}` } : {})
        if (answer || !repeats || this.#isStopped) return answer
        machine++
        await pause(PACE_MS)
      }
    }
  }

  /** Injects a fault, and waits until what it hit is back. */
  async inject({ kind, target, ms, which }) {
    const at = this.#now()
    const fault = { at, until: at, what: nameOf({ kind, target, ms }) }
    this.history.faults.push(fault)
    const machine = this.#machines[target]
    if (kind === 'kill worker') await machine.killWorker(which)
    else if (kind === 'stop worker') await machine.stopWorker(which, ms)
    else if (kind === 'kill machine') await machine.kill(ms)
    else if (kind === 'stop machine') await machine.stop(ms)
    else if (kind === 'upgrade') for (const each of this.#machines) await each.upgrade()
    else if (kind === 'storm') await this.#storm(ms)
    else {
      const server = kind.endsWith('leader') ? await this.#leader() : target
      if (server === undefined) fault.what += ', skipped: no stream'
      else await this.#natsAway(server, kind.startsWith('kill'), ms)
    }
    fault.until = this.#now()
  }

  /** The network of all clients is away; then all come back. */
  async #storm(ms) {
    this.#isOffline = true
    for (const socket of this.#sockets) socket.terminate()
    await pause(ms)
    this.#isOffline = false
  }

  async #natsAway(at, isKilled, ms) {
    const server = this.#nats[at]
    if (isKilled) await server.kill()
    else signal([server.pid], 'SIGSTOP')
    await pause(ms)
    if (isKilled) this.#nats[at] = await server.again()
    else signal([server.pid], 'SIGCONT')
    await this.#untilHealthy(at)
  }

  /** Waits until a NATS server has all that it must have of the streams. */
  #untilHealthy(at) {
    return waitUntil(async () => (await this.#monitor(at, '/healthz'))?.status === 'ok', `NATS server ${at} is healthy`, BACK_MS)
  }

  /** The server that leads a stream; undefined when there is none. */
  async #leader() {
    for (const at of this.#nats.keys()) {
      const { account_details: accounts = [] } = (await this.#monitor(at, '/jsz?accounts=true&streams=true')) ?? {}
      const leaders = accounts.flatMap(({ stream_detail: streams = [] }) => streams.map(({ cluster }) => cluster?.leader ?? 'nats-0'))
      if (leaders.length > 0) return Number(leaders[0].slice('nats-'.length))
    }
    return undefined
  }

  #monitor(at, pathname) {
    const answer = fetch(`http://127.0.0.1:${this.#monitors[at]}${pathname}`, { signal: AbortSignal.timeout(2_000) })
    return answer.then((response) => response.json()).catch(() => undefined)
  }

  /** After the faults of a round: everything works again, and presence is the truth. */
  async settle() {
    // The machine that started later ends by itself when a partition has given two of them the same numbers.
    await Promise.all(this.#machines.filter(({ isRunning }) => !isRunning).map((machine) => machine.start()))
    await this.#untilBack()
    const end = performance.now() + PRESENCE_MS
    let wrong = this.#wrongPresences()
    for (; wrong.length > 0 && performance.now() < end; wrong = this.#wrongPresences()) await pause(50)
    this.history.presence.push(...wrong)
  }

  async #untilBack() {
    const since = this.#now()
    const away = () => {
      const answered = this.history.published.filter(({ at, acknowledged }) => at > since && acknowledged !== null)
      const publishers = new Set(answered.map(({ publisher }) => publisher))
      const silent = [...new Set(this.history.published.map(({ publisher }) => publisher))].filter((name) => !publishers.has(name))
      const lost = this.#clients.filter(({ channels }) => channels.some(({ state }) => state !== 'joined')).map(({ name }) => name)
      return [silent, lost]
    }
    const what = () => `without answers: ${away()[0].join(', ')}; not joined: ${away()[1].join(', ')}`
    await waitUntil(() => away().flat().length === 0, what, BACK_MS).catch(({ message }) => this.trouble(message))
  }

  /** The presences of clients that are not the truth: one meta for each client. */
  #wrongPresences() {
    const truth = Object.fromEntries(this.#clients.map(({ name }) => [name, 1]))
    const all = this.#clients.flatMap(({ name, presences }) =>
      presences.map(({ state }, topic) => {
        const metas = Object.entries(state).map(([key, { metas }]) => [key, metas.length])
        return { at: this.#now(), client: name, topic: `kept:${topic}`, seen: Object.fromEntries(metas), truth }
      }),
    )
    return all.filter(({ seen }) => !isDeepStrictEqual(seen, truth))
  }

  /** Waits until all has arrived; then the clients leave, and are gone. */
  async finish() {
    this.#isStopped = true
    await Promise.all(this.#publishing)
    const end = performance.now() + QUIET_MS
    while (check(this.history).some(({ kind, at }) => kind === 'lost' && at === undefined) && performance.now() < end) await pause(500)
    for (const { client } of this.#clients) client.socket.disconnect()
    for (const [at, machine] of this.#machines.entries()) {
      let left
      const isEmpty = async () => {
        left = await this.#countsOf(machine).catch(({ message }) => ({ [message]: 1 }))
        return Object.values(left).every((count) => count === 0)
      }
      await waitUntil(isEmpty, 'all clients are gone', QUIET_MS).catch(() => {})
      this.history.counts.push({ at: this.#now(), where: `machine ${at}`, left })
      for (const line of machine.panics) this.trouble(`machine ${at}: ${line}`)
    }
  }

  async #countsOf(machine) {
    const { clients } = await api(machine, 'info', {})
    const { topics } = await api(machine, 'topics', { prefix: 'kept:' })
    let present = 0
    for (let topic = 0; topic < TOPICS; topic++) present += (await api(machine, 'presence_stats', { topic: `kept:${topic}` })).metas
    return { clients, topics: topics.length, present }
  }

  end() {
    this.#isStopped = true
    for (const { client } of this.#clients) client.socket.disconnect()
    for (const machine of this.#machines) machine.end()
    for (const server of this.#nats) signal([server.pid], 'SIGKILL')
  }
}

/** The JSON of an answer 200 to a publish, and the port of the connection; undefined after another answer, and after none. */
async function post(port, agent, body, more) {
  const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${API_KEY}`, ...more }
  const options = { host: '127.0.0.1', port, path: '/api/publish', method: 'POST', agent, headers, signal: AbortSignal.timeout(ANSWER_MS) }
  try {
    const response = await new Promise((resolve, reject) => request(options, resolve).on('error', reject).end(body))
    const connection = response.socket.localPort
    const answer = await text(response)
    return response.statusCode === 200 ? { ...JSON.parse(answer), connection } : undefined
  } catch {
    return undefined
  }
}
