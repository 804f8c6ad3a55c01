import type { WantEntry } from '../bitswap/index.ts'
import { inlineBytes, type Cid, type CidKey } from '../content/index.ts'
import type { ExchangeCounts, ExchangeSettings, Millis, PeerId } from './events.ts'
import type { Outbox } from './outbox.ts'

interface Waiting {
  readonly cid: Cid
  readonly type: 'block' | 'have'
}

interface Client {
  readonly outbox: Outbox
  /** What it wants and has not got: ours to send, or to tell of once we have it. */
  readonly ledger: Map<CidKey, Waiting>
  /** Of the ledger, what we have and will send, in the order asked. */
  readonly ready: Map<CidKey, { cid: Cid; size: number }>
  readyBytes: number
  /** Blocks of the message on its way. */
  sending: Set<CidKey>
  sendingBytes: number
  sentBytes: number
  /** When to tell it that its blocks will come; `null` while it is owed none. */
  tellTurnAt: Millis | null
}

/** What is to be sent to a peer next. */
export interface Serving {
  readonly peer: PeerId
  readonly blocks: readonly Cid[]
  /** Bytes that stay queued for it behind these. */
  readonly pendingBytes: number
}

/** Whom to serve with what: a ledger of wants for each peer, and turns among those for whom something is ready. */
export class Ledgers {
  readonly #settings: ExchangeSettings
  readonly #counts: ExchangeCounts
  readonly #held = new Map<CidKey, number>()
  /** In order of turns: who was served last is last. */
  readonly #clients = new Map<PeerId, Client>()
  #sendingBytes = 0

  constructor(settings: ExchangeSettings, counts: ExchangeCounts) {
    this.#settings = settings
    this.#counts = counts
  }

  join(peer: PeerId, outbox: Outbox): void {
    const empty = { readyBytes: 0, sendingBytes: 0, sentBytes: 0, tellTurnAt: null }
    this.#clients.set(peer, { outbox, ledger: new Map(), ready: new Map(), sending: new Set(), ...empty })
  }

  leave(peer: PeerId): void {
    this.#sendingBytes -= this.#clients.get(peer)?.sendingBytes ?? 0
    this.#clients.delete(peer)
  }

  isHeld(cid: Cid): boolean {
    return this.#held.has(cid.key)
  }

  /** Bytes that wait to be sent to this peer. */
  pendingBytes(peer: PeerId): number {
    return this.#clients.get(peer)?.readyBytes ?? 0
  }

  sentBytes(peer: PeerId): number {
    return this.#clients.get(peer)?.sentBytes ?? 0
  }

  /** Serves a block from now on, first to those who wait for it. */
  hold(cid: Cid, size: number): void {
    this.#held.set(cid.key, size)
    for (const client of this.#clients.values()) {
      const waiting = client.ledger.get(cid.key)
      if (waiting !== undefined) this.#answer(client, waiting, size)
    }
  }

  /** A block turned out to be gone when it was to be sent. */
  lose(peer: PeerId, cid: Cid): void {
    this.#held.delete(cid.key)
    for (const client of this.#clients.values()) {
      const ready = client.ready.get(cid.key)
      if (ready === undefined) continue
      this.#unready(client, cid.key)
      client.outbox.presence(cid, false)
    }
    this.#clients.get(peer)?.outbox.presence(cid, false)
  }

  handleWants(peer: PeerId, wants: readonly WantEntry[], full: boolean): void {
    const client = this.#clients.get(peer)
    if (client === undefined) return
    if (full) {
      client.ledger.clear()
      client.ready.clear()
      client.readyBytes = 0
    }
    for (const want of wants) this.#handleWant(client, want)
  }

  #handleWant(client: Client, want: WantEntry): void {
    const { key } = want.cid
    if (want.cancel) {
      client.ledger.delete(key)
      this.#unready(client, key)
      return
    }
    if (client.sending.has(key)) return
    const before = client.ledger.get(key)
    const type = before?.type === 'block' ? 'block' : want.type
    const size = this.#held.get(key) ?? inlineBytes(want.cid)?.length
    if (size === undefined && want.sendDontHave) client.outbox.presence(want.cid, false)
    if (before === undefined && client.ledger.size >= this.#settings.ledgerMax) {
      this.#counts.ledgerOverflows++
      if (size !== undefined && want.sendDontHave) client.outbox.presence(want.cid, false)
      return
    }
    // Who was told that we lack a block asks elsewhere, so later it hears that we have it instead of getting it twice.
    const remembered = size === undefined && want.sendDontHave ? 'have' : type
    client.ledger.set(key, { cid: want.cid, type: remembered })
    if (size !== undefined) this.#answer(client, { cid: want.cid, type }, size)
  }

  #answer(client: Client, { cid, type }: Waiting, size: number): void {
    // However small the block: many may be asked whether they have it, and one copy is enough.
    if (type === 'block') {
      if (!client.ready.has(cid.key)) client.readyBytes += size
      client.ready.set(cid.key, { cid, size })
    } else {
      client.ledger.delete(cid.key)
      client.outbox.presence(cid, true)
    }
  }

  #unready(client: Client, key: CidKey): void {
    client.readyBytes -= client.ready.get(key)?.size ?? 0
    client.ready.delete(key)
  }

  /** Whom to send blocks now, whoever waited longest first; `null` when nobody waits or enough is on its way. */
  pollServing(): Serving | null {
    if (this.#sendingBytes >= this.#settings.sendingBytesMax) return null
    for (const [peer, client] of this.#clients) {
      if (client.sending.size > 0 || client.ready.size === 0) continue
      this.#clients.delete(peer)
      this.#clients.set(peer, client)
      const blocks = this.#fill(client)
      return { peer, blocks, pendingBytes: client.readyBytes }
    }
    return null
  }

  #fill(client: Client): Cid[] {
    const blocks: Cid[] = []
    for (const [key, { cid, size }] of client.ready) {
      if (blocks.length > 0 && client.sendingBytes + size > this.#settings.messageBytesMax) break
      blocks.push(cid)
      client.sending.add(key)
      client.sendingBytes += size
      client.ledger.delete(key)
      this.#unready(client, key)
    }
    this.#sendingBytes += client.sendingBytes
    return blocks
  }

  /** Tells those who are owed blocks, at once and then again and again, that they have not been forgotten. */
  tellTurns(now: Millis): void {
    for (const client of this.#clients.values()) {
      if (client.ready.size + client.sending.size === 0) client.tellTurnAt = null
      else if (client.tellTurnAt === null && client.sending.size > 0) {
        client.tellTurnAt = now + this.#settings.turnToldInterval
      } else if (client.tellTurnAt === null || client.tellTurnAt <= now) {
        client.tellTurnAt = now + this.#settings.turnToldInterval
        client.outbox.tellPending()
      }
    }
  }

  /** When to tell turns next; `null` when nobody is owed anything. */
  nextWake(): Millis | null {
    let wake: Millis | null = null
    for (const { tellTurnAt } of this.#clients.values()) {
      if (tellTurnAt !== null && (wake === null || tellTurnAt < wake)) wake = tellTurnAt
    }
    return wake
  }

  /** The blocks given out for this peer are through, or given up. */
  handleSent(peer: PeerId): void {
    const client = this.#clients.get(peer)
    if (client === undefined) return
    this.#sendingBytes -= client.sendingBytes
    client.sentBytes += client.sendingBytes
    client.sending = new Set()
    client.sendingBytes = 0
  }
}
