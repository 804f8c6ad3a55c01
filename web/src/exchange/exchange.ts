import type { Cid } from '../content/index.ts'
import {
  defaultExchangeSettings, type DropReason, type ExchangeCounts, type ExchangeSettings, type Have, type Input, type Millis,
  type Output, type PeerId,
} from './events.ts'
import { Outbox } from './outbox.ts'
import { Seeking } from './seeking.ts'
import { Ledgers } from './serving.ts'

/**
 * One page's exchange of blocks with its peers: asks for what is wanted, serves what is held. It knows neither clock
 * nor dice nor network: it is told what happens and when, and says what to do.
 */
export class Exchange {
  readonly counts: ExchangeCounts = { unwanted: 0, lies: 0, silences: 0, relieves: 0, ledgerOverflows: 0 }
  readonly #settings: ExchangeSettings
  readonly #seeking: Seeking
  readonly #ledgers: Ledgers
  readonly #outboxes = new Map<PeerId, Outbox>()
  /** Peers with a control message on its way. */
  readonly #telling = new Set<PeerId>()

  /** `seed` in [0, 1) is where in each run of blocks to begin; several seekers do well to have different ones. */
  constructor(seed: number, settings: ExchangeSettings = defaultExchangeSettings) {
    this.#settings = settings
    this.#seeking = new Seeking(settings, this.counts, seed)
    this.#ledgers = new Ledgers(settings, this.counts)
  }

  /** Takes one input; returns all that is to be done about it, in this order. */
  handle(now: Millis, input: Input): Output[] {
    const outputs: Output[] = []
    switch (input.kind) {
      case 'joined':
        this.#join(input.peer, input.have)
        break
      case 'left':
        this.#leave(input.peer)
        break
      case 'want':
        this.#seeking.want(input.blocks.filter(({ cid }) => !this.#ledgers.isHeld(cid)))
        break
      case 'urgent':
        this.#seeking.urge(input.cids)
        break
      case 'held':
        this.#ledgers.hold(input.cid, input.size)
        break
      case 'lost':
        this.#ledgers.lose(input.peer, input.cid)
        break
      case 'message':
        this.#handleMessage(now, input, outputs)
        break
      case 'malformed':
        this.#drop(input.peer, 'malformed', outputs)
        break
      case 'progress':
        this.#seeking.receive(now, input.peer)
        break
      case 'sent':
        if (input.lane === 'control') this.#telling.delete(input.peer)
        else this.#ledgers.handleSent(input.peer)
        break
      case 'tick':
        this.#seeking.handleTick(now)
        break
    }
    this.#seeking.ask(now)
    this.#serve(outputs)
    this.#ledgers.tellTurns(now)
    this.#say(outputs)
    return outputs
  }

  /** When to send `tick`; `null` while nobody owes us anything, nor we anybody. */
  nextWake(): Millis | null {
    const wakes = [this.#seeking.nextWake(), this.#ledgers.nextWake()].filter((wake) => wake !== null)
    return wakes.length > 0 ? Math.min(...wakes) : null
  }

  get blocksInFlight(): number {
    return this.#seeking.blocksInFlight
  }

  has(peer: PeerId): boolean {
    return this.#seeking.has(peer)
  }

  peers(): { id: PeerId; have: Have; receivedBytes: number; sentBytes: number }[] {
    return Array.from(this.#seeking.sources, ({ id, have, receivedBytes }) => ({
      id, have, receivedBytes, sentBytes: this.#ledgers.sentBytes(id),
    }))
  }

  #join(peer: PeerId, have: Have): void {
    if (this.#seeking.has(peer)) {
      this.#seeking.learnHave(peer, have)
      return
    }
    if (this.#outboxes.size >= this.#settings.peersMax) return
    const outbox = new Outbox()
    this.#outboxes.set(peer, outbox)
    this.#seeking.join(peer, have, outbox)
    this.#ledgers.join(peer, outbox)
  }

  #leave(peer: PeerId): void {
    this.#outboxes.delete(peer)
    this.#telling.delete(peer)
    this.#seeking.leave(peer)
    this.#ledgers.leave(peer)
  }

  #handleMessage(now: Millis, input: Input & { kind: 'message' }, outputs: Output[]): void {
    const { peer, message, blocks, uncheckable } = input
    if (!this.#seeking.has(peer)) return
    this.#seeking.hear(now, peer, message.pendingBytes)
    if (blocks.length > 0) this.#seeking.receive(now, peer)
    for (const { cid, bytes } of blocks) {
      if (this.#seeking.isWanted(cid)) {
        this.#seeking.settle(peer, cid, bytes.length)
        this.#ledgers.hold(cid, bytes.length)
        outputs.push({ kind: 'arrived', peer, cid, bytes })
      } else if (this.#isLie(peer, cid)) {
        this.counts.lies++
        this.#drop(peer, 'lied', outputs)
        return
      } else if (this.#seeking.countUnwanted(peer)) {
        this.#drop(peer, 'flooded', outputs)
        return
      }
    }
    if (uncheckable > 0) {
      this.counts.lies++
      this.#drop(peer, 'lied', outputs)
      return
    }
    this.#seeking.handlePresences(peer, message.presences)
    this.#ledgers.handleWants(peer, message.wants, message.full)
  }

  /**
   * Bitswap names a block by what it hashes to, so a wrong block is one of a CID that nobody has heard of, from a peer
   * that owes us another. A block that came twice is no lie.
   */
  #isLie(peer: PeerId, cid: Cid): boolean {
    return !this.#ledgers.isHeld(cid) && this.#seeking.isAsked(peer)
  }

  #drop(peer: PeerId, reason: DropReason, outputs: Output[]): void {
    this.#leave(peer)
    outputs.push({ kind: 'drop', peer, reason })
  }

  #say(outputs: Output[]): void {
    for (const [peer, outbox] of this.#outboxes) {
      if (outbox.isEmpty || this.#telling.has(peer)) continue
      this.#telling.add(peer)
      const message = { full: false, pendingBytes: this.#ledgers.pendingBytes(peer), ...outbox.take() }
      outputs.push({ kind: 'send', peer, lane: 'control', message, blocks: [] })
    }
  }

  #serve(outputs: Output[]): void {
    for (let serving = this.#ledgers.pollServing(); serving !== null; serving = this.#ledgers.pollServing()) {
      const { peer, blocks, pendingBytes } = serving
      const message = { full: false, wants: [], presences: [], pendingBytes }
      outputs.push({ kind: 'send', peer, lane: 'blocks', message, blocks })
    }
  }
}
