import type { Connection, ConnectionState, Reply, Topic, TopicEvents } from '../channel/index.ts'
import type { Have } from './api.ts'
import type { PretendClock } from './pretend-clock.ts'

interface Guest {
  readonly id: string
  readonly connection: PretendConnection
  readonly topic: string
  readonly events: TopicEvents
  have: Have
  readonly kind: string | undefined
  joined: boolean
}

/** What becomes of one relay frame; `null` lets it through. */
export type Verdict = (from: string, to: string, data: Uint8Array) => Reply | null

const LATENCY = 5
const GONE: Reply = { status: 'error', response: { reason: 'peer gone' } }

/** The server's side of the page protocol, in memory and pretend time. */
export class PretendServer {
  readonly clock: PretendClock
  judge: Verdict = () => null
  /** How many of those present a newcomer is introduced to. */
  introductions = 8
  relayedBytes = 0
  /** Signals passed on, as text, with who said them to whom. */
  readonly signals: { from: string; to: string; said: string }[] = []
  readonly guests: Guest[] = []
  #ids = 0

  constructor(clock: PretendClock) {
    this.clock = clock
  }

  connect(): PretendConnection {
    return new PretendConnection(this)
  }

  enter(connection: PretendConnection, topic: string, events: TopicEvents): Guest {
    const id = (++this.#ids).toString(16).padStart(16, '0')
    const have = events.params?.()['have'] as Have
    const kind = events.params?.()['kind'] as string | undefined
    const guest: Guest = { id, connection, topic, events, have, kind, joined: true }
    const others = this.#on(topic)
    this.guests.push(guest)
    const peers = others.slice(-this.introductions).map(introduction)
    this.#later(guest, () => events.joined?.({ peer: id, peers, counts: this.#counts(topic) }))
    for (const other of others.slice(-this.introductions)) this.#say(other, 'peer_joined', introduction(guest))
    this.#recount(topic, others.filter((other) => other.have === 'all').length)
    return guest
  }

  depart(guest: Guest): void {
    const before = this.#holders(guest.topic)
    this.guests.splice(this.guests.indexOf(guest), 1)
    guest.joined = false
    for (const other of this.#on(guest.topic)) this.#say(other, 'peer_left', { peer: guest.id })
    this.#recount(guest.topic, before)
  }

  handle(guest: Guest, event: string, payload: Record<string, unknown> | Uint8Array): Reply {
    if (payload instanceof Uint8Array) return event === 'signal' ? this.#signal(guest, payload) : this.#relay(guest, payload)
    if (event === 'have') {
      const before = this.#holders(guest.topic)
      guest.have = payload['have'] as Have
      this.#recount(guest.topic, before)
      return { status: 'ok', response: {} }
    }
    const peers = this.#on(guest.topic).filter((other) => other !== guest)
    return { status: 'ok', response: { peers: peers.map(introduction) } }
  }

  #relay(from: Guest, data: Uint8Array): Reply {
    const to = this.#destination(from, data)
    if (to === undefined) return GONE
    const verdict = this.judge(from.id, to.id, data)
    if (verdict !== null) return verdict
    this.relayedBytes += data.length
    this.#passOn(from, to, 'relay', data)
    return { status: 'ok', response: {} }
  }

  #signal(from: Guest, data: Uint8Array): Reply {
    const to = this.#destination(from, data)
    if (to === undefined) return GONE
    this.signals.push({ from: from.id, to: to.id, said: new TextDecoder().decode(data.subarray(8)) })
    this.#passOn(from, to, 'signal', data)
    return { status: 'ok', response: {} }
  }

  #destination(from: Guest, data: Uint8Array): Guest | undefined {
    const id = new DataView(data.buffer, data.byteOffset).getBigUint64(0).toString(16).padStart(16, '0')
    return this.#on(from.topic).find((guest) => guest.id === id)
  }

  #passOn(from: Guest, to: Guest, event: string, data: Uint8Array): void {
    const passedOn = new Uint8Array(data)
    new DataView(passedOn.buffer).setBigUint64(0, BigInt(`0x${from.id}`))
    this.#say(to, event, passedOn.buffer)
  }

  #on(topic: string): Guest[] {
    return this.guests.filter((guest) => guest.topic === topic)
  }

  #holders(topic: string): number {
    return this.#on(topic).filter(({ have }) => have === 'all').length
  }

  #counts(topic: string) {
    const of = (guests: Guest[]) => {
      const [holders, partial] = ['all', 'some'].map((wanted) => guests.filter(({ have }) => have === wanted).length)
      return { watching: guests.length, holders, partial }
    }
    const on = this.#on(topic)
    const nodes = on.filter(({ kind }) => kind === 'node')
    return { ...of(on), ...(nodes.length > 0 ? { nodes: of(nodes) } : {}) }
  }

  #recount(topic: string, holdersBefore: number): void {
    const holders = this.#holders(topic)
    for (const guest of this.#on(topic)) {
      this.#say(guest, 'counts', this.#counts(topic))
      if (holders > 0 && holdersBefore === 0) this.#say(guest, 'lit', {})
      if (holders === 0 && holdersBefore > 0) this.#say(guest, 'dark', {})
    }
  }

  #say(to: Guest, event: string, payload: unknown): void {
    this.#later(to, () => to.events.message?.(event, payload))
  }

  #later(guest: Guest, happen: () => void): void {
    this.clock.after(LATENCY, () => guest.joined && happen())
  }
}

function introduction({ id: peer, have, kind }: Guest) {
  return { peer, have, ...(kind === undefined ? {} : { kind }) }
}

export class PretendConnection implements Connection {
  readonly #server: PretendServer
  #topics: { name: string; events: TopicEvents; guest: Guest | null }[] = []
  state: ConnectionState = 'open'

  constructor(server: PretendServer) {
    this.#server = server
  }

  subscribe(): () => void {
    return () => {}
  }

  join(name: string, _names: readonly string[], events: TopicEvents): Topic {
    const topic = { name, events, guest: null as Guest | null }
    this.#topics.push(topic)
    this.#server.clock.after(0, () => {
      if (this.#topics.includes(topic)) topic.guest = this.#server.enter(this, name, events)
    })
    return {
      isJoined: () => topic.guest?.joined === true,
      push: (event, payload) =>
        new Promise((resolve) => {
          const { guest } = topic
          if (guest === null || !guest.joined) resolve({ status: 'offline' })
          else {
            const reply = this.#server.handle(guest, event, payload)
            this.#server.clock.after(LATENCY, () => resolve(guest.joined ? reply : { status: 'offline' }))
          }
        }),
      leave: () => {
        this.#topics = this.#topics.filter((each) => each !== topic)
        if (topic.guest !== null && topic.guest.joined) this.#server.depart(topic.guest)
      },
    }
  }

  /** The line breaks; every topic is joined again after a second. */
  break(): void {
    for (const topic of this.#topics) {
      if (topic.guest === null) continue
      this.#server.depart(topic.guest)
      topic.events.lost?.()
      this.#server.clock.after(1000, () => {
        if (this.#topics.includes(topic)) topic.guest = this.#server.enter(this, topic.name, topic.events)
      })
    }
  }

  close(): void {
    for (const { guest } of this.#topics) if (guest !== null) this.#server.depart(guest)
    this.#topics = []
  }
}
