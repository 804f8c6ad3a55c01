import { createHash } from 'node:crypto'
import type { Connection, ConnectionState, Reply, Topic, TopicEvents } from '@watchfire/client/connection'
import type { Have } from '../src/swarm/api.ts'
import type { FakeClock } from './fake-clock.ts'

interface FakePeer {
  readonly id: string
  readonly connection: FakeConnection
  readonly topic: string
  readonly events: TopicEvents
  have: Have
  readonly kind: string | undefined
  /** The first peer of the join reply that has the whole page. */
  readonly firstHolder: string | undefined
  joined: boolean
}

/** The reply to one relay frame. `null` relays it. */
export type Verdict = (from: string, to: string, data: Uint8Array) => Reply | null

const LATENCY = 5
const GONE: Reply = { status: 'error', response: { reason: 'peer gone' } }

/** The server's side of the page protocol, in memory and on a fake clock. */
export class FakeServer {
  readonly clock: FakeClock
  refuseRelay: Verdict = () => null
  /** The number of peers to which a new peer is introduced. */
  introductions = 8
  relayedBytes = 0
  /** Signals that were forwarded, as text, with sender and receiver. */
  readonly signals: { from: string; to: string; text: string }[] = []
  /** The contexts of traces that joins named, and the reports of tabs about their traces. */
  readonly traceparents: unknown[] = []
  readonly reports: unknown[] = []
  readonly members: FakePeer[] = []
  /** Other servers, by their end points. */
  readonly others = new Map<string, FakeServer>()
  /** Whether a peer has the id of the key that its join names, unless another peer has it. */
  hasKeys = false
  #elsewhere: readonly string[] = []
  #ids = 0

  constructor(clock: FakeClock) {
    this.clock = clock
  }

  connect(): FakeConnection {
    return new FakeConnection(this)
  }

  /** Names other servers that have every page. */
  nameElsewhere(servers: readonly string[]): void {
    this.#elsewhere = servers
    for (const member of this.members) this.#send(member, 'elsewhere', { servers })
  }

  addMember(connection: FakeConnection, topic: string, events: TopicEvents): FakePeer {
    const params = events.params?.() ?? {}
    const id = this.#newId(params['peer_key'])
    const have = params['have'] as Have
    const kind = params['kind'] as string | undefined
    if (params['traceparent'] !== undefined) this.traceparents.push(params['traceparent'])
    const others = this.#on(topic)
    const peers = others.slice(-this.introductions).map(introduction)
    const firstHolder = peers.find(({ have }) => have === 'all')?.peer
    const member: FakePeer = { id, connection, topic, events, have, kind, firstHolder, joined: true }
    this.members.push(member)
    const elsewhere = this.#elsewhere.length > 0 ? { elsewhere: this.#elsewhere } : {}
    this.#schedule(member, () => events.joined?.({ peer: id, peers, counts: this.#counts(topic), ...elsewhere }))
    for (const other of others.slice(-this.introductions)) this.#send(other, 'peer_joined', introduction(member))
    this.#recount(topic, others.filter((other) => other.have === 'all').length)
    return member
  }

  removeMember(member: FakePeer): void {
    const before = this.#holders(member.topic)
    this.members.splice(this.members.indexOf(member), 1)
    member.joined = false
    for (const other of this.#on(member.topic)) this.#send(other, 'peer_left', { peer: member.id })
    this.#recount(member.topic, before)
  }

  handle(member: FakePeer, event: string, payload: Record<string, unknown> | Uint8Array): Reply {
    if (payload instanceof Uint8Array) return event === 'signal' ? this.#signal(member, payload) : this.#relay(member, payload)
    if (event === 'have') {
      const before = this.#holders(member.topic)
      member.have = payload['have'] as Have
      this.#recount(member.topic, before)
      return { status: 'ok', response: {} }
    }
    if (event === 'trace') {
      this.reports.push(payload)
      return { status: 'ok', response: {} }
    }
    const peers = this.#on(member.topic).filter((other) => other !== member)
    return { status: 'ok', response: { peers: peers.map(introduction) } }
  }

  #newId(key: unknown): string {
    const ofKey = this.hasKeys && typeof key === 'string' ? createHash('sha256').update(key).digest('hex').slice(0, 16) : null
    if (ofKey !== null && this.members.every(({ id }) => id !== ofKey)) return ofKey
    return (++this.#ids).toString(16).padStart(16, '0')
  }

  #relay(from: FakePeer, data: Uint8Array): Reply {
    const to = this.#destination(from, data)
    if (to === undefined) return GONE
    const verdict = this.refuseRelay(from.id, to.id, data)
    if (verdict !== null) return verdict
    this.relayedBytes += data.length
    this.#forward(from, to, 'relay', data)
    return { status: 'ok', response: {} }
  }

  #signal(from: FakePeer, data: Uint8Array): Reply {
    const to = this.#destination(from, data)
    if (to === undefined) return GONE
    this.signals.push({ from: from.id, to: to.id, text: new TextDecoder().decode(data.subarray(8)) })
    this.#forward(from, to, 'signal', data)
    return { status: 'ok', response: {} }
  }

  #destination(from: FakePeer, data: Uint8Array): FakePeer | undefined {
    const id = new DataView(data.buffer, data.byteOffset).getBigUint64(0).toString(16).padStart(16, '0')
    const to = id === '0'.repeat(16) ? from.firstHolder : id
    return this.#on(from.topic).find((member) => member.id === to)
  }

  #forward(from: FakePeer, to: FakePeer, event: string, data: Uint8Array): void {
    const passedOn = new Uint8Array(data)
    new DataView(passedOn.buffer).setBigUint64(0, BigInt(`0x${from.id}`))
    this.#send(to, event, passedOn.buffer)
  }

  #on(topic: string): FakePeer[] {
    return this.members.filter((member) => member.topic === topic)
  }

  #holders(topic: string): number {
    return this.#on(topic).filter(({ have }) => have === 'all').length
  }

  #counts(topic: string) {
    const of = (members: FakePeer[]) => {
      const [holders, partial] = ['all', 'some'].map((wanted) => members.filter(({ have }) => have === wanted).length)
      return { watching: members.length, holders, partial }
    }
    const on = this.#on(topic)
    const nodes = on.filter(({ kind }) => kind === 'node')
    return { ...of(on), ...(nodes.length > 0 ? { nodes: of(nodes) } : {}) }
  }

  #recount(topic: string, holdersBefore: number): void {
    const holders = this.#holders(topic)
    for (const member of this.#on(topic)) {
      this.#send(member, 'counts', this.#counts(topic))
      if (holders > 0 && holdersBefore === 0) this.#send(member, 'available', {})
      if (holders === 0 && holdersBefore > 0) this.#send(member, 'unavailable', {})
    }
  }

  #send(to: FakePeer, event: string, payload: unknown): void {
    this.#schedule(to, () => to.events.message?.(event, payload))
  }

  #schedule(member: FakePeer, happen: () => void): void {
    this.clock.after(LATENCY, () => member.joined && happen())
  }
}

function introduction({ id: peer, have, kind }: FakePeer) {
  return { peer, have, ...(kind === undefined ? {} : { kind }) }
}

export class FakeConnection implements Connection {
  readonly #server: FakeServer
  #topics: { name: string; events: TopicEvents; member: FakePeer | null }[] = []
  state: ConnectionState = 'open'

  constructor(server: FakeServer) {
    this.#server = server
  }

  subscribe(): () => void {
    return () => {}
  }

  join(name: string, _names: readonly string[], events: TopicEvents): Topic {
    const topic = { name, events, member: null as FakePeer | null }
    this.#topics.push(topic)
    this.#server.clock.after(0, () => {
      if (!this.#topics.includes(topic)) return
      const member = this.#server.addMember(this, name, events)
      topic.member = member
      const first = events.first?.() ?? null
      if (first === null) return
      const reply = this.#server.handle(member, first.event, first.payload)
      this.#server.clock.after(LATENCY, () => first.settle(reply))
    })
    return {
      isJoined: () => topic.member?.joined === true,
      push: (event, payload) =>
        new Promise((resolve) => {
          const { member } = topic
          if (member === null || !member.joined) resolve({ status: 'offline' })
          else {
            const reply = this.#server.handle(member, event, payload)
            this.#server.clock.after(LATENCY, () => resolve(member.joined ? reply : { status: 'offline' }))
          }
        }),
      leave: () => {
        this.#topics = this.#topics.filter((each) => each !== topic)
        if (topic.member?.joined) this.#server.removeMember(topic.member)
      },
    }
  }

  /** The connection breaks. Every topic is joined again after this many milliseconds; `null`: never. */
  break(milliseconds: number | null = 1000): void {
    for (const topic of this.#topics) {
      if (topic.member === null) continue
      this.#server.removeMember(topic.member)
      topic.events.lost?.()
      if (milliseconds === null) continue
      this.#server.clock.after(milliseconds, () => {
        if (this.#topics.includes(topic)) topic.member = this.#server.addMember(this, topic.name, topic.events)
      })
    }
  }

  verify(): Promise<void> {
    return Promise.resolve()
  }

  connect(endPoint: string): FakeConnection {
    const other = this.#server.others.get(endPoint)
    if (other === undefined) throw new Error(`no server at ${endPoint}`)
    return other.connect()
  }

  close(): void {
    for (const { member } of this.#topics) if (member !== null) this.#server.removeMember(member)
    this.#topics = []
  }
}
