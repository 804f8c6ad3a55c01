import { encodeMessage, MILLI, type Block, type Exchange, type Input, type Message, type Output, type PeerId } from '../bitswap/index.ts'
import type { BlockStore, Cid } from '../content/index.ts'
import type { Clock, Millis } from './clock.ts'
import type { PagePeers } from './page-peers.ts'
import type { Member } from './peer-roster.ts'
import { SuperSeeding } from './super-seeding.ts'

/**
 * The most bytes of messages to one peer that are not sent yet. It is more than a slow connection ever has in flight,
 * so that a want does not wait for a block to leave.
 */
const UNSENT_BYTES_MAX = 4 << 20

/**
 * A timer that fires this late shows that the tab was busy. Messages may be waiting that it has not read, so peers must
 * not time out yet. The tick is delayed once more by the same time, up to the maximum.
 */
const LATE_TIMER_MIN: Millis = 150
const EXTRA_WAIT_MAX: Millis = 5000

export interface ExchangeDriverDeps {
  readonly exchange: Exchange
  readonly clock: Clock
  readonly peers: PagePeers
  readonly store: BlockStore
  readonly isClosed: () => boolean
  /** Whether the page has failed or is closed. Outputs are then ignored. */
  readonly isOver: () => boolean
  /** Whether this tab super-seeds, see `SuperSeeding`. */
  readonly isSource: () => boolean
  /** A wanted block arrived and is verified. */
  readonly onBlock: (block: Block, from: PeerId) => void
  /** The span that a message belongs to in a distributed trace, unless the peer knows it. */
  readonly traceFor: (peer: PeerId, message: Message) => string | null
  /** Asks the server for more peers. Resolves with those that have a full copy. */
  readonly findProviders: () => Promise<readonly PeerId[]>
  /** All inputs so far have been handled. */
  readonly onSettled: () => void
}

/** Drives a page's exchange: passes it inputs in order and carries out its outputs. */
export class ExchangeDriver {
  readonly #deps: ExchangeDriverDeps
  readonly #superSeeding: SuperSeeding
  #inputs: Input[] = []
  #isHandling = true
  #stopTick: (() => void) | null = null
  #tickAt = Infinity

  constructor(deps: ExchangeDriverDeps) {
    this.#deps = deps
    this.#superSeeding = new SuperSeeding({
      clock: deps.clock,
      isSource: deps.isSource,
      release: (cid, length) => this.handle({ kind: 'stored', cid, length }),
    })
  }

  /** Starts handling inputs. Earlier inputs were queued. */
  start(): void {
    this.#isHandling = false
    this.#handleInputs()
  }

  handle(input: Input): void {
    this.handleAll([input])
  }

  handleAll(inputs: readonly Input[]): void {
    for (const input of inputs) {
      this.#superSeeding.handleInput(input)
      this.#inputs.push(input)
    }
    this.#handleInputs()
  }

  /** A peer connected. */
  connect(member: Member): void {
    const peer = member.peer.id
    // The exchange counts from now on.
    member.blockMessagesBefore = member.peer.blockMessages
    member.acknowledgedReported = 0
    this.handleAll([
      { kind: 'connected', peer, isProvider: member.have === 'all' },
      { kind: 'acknowledged', peer, messages: 0 },
      { kind: 'path', peer, isDirect: member.peer.path === 'direct' },
      { kind: 'writable', peer, roomBytes: roomOf(member) },
    ])
  }

  stop(): void {
    this.#stopTick?.()
    this.#superSeeding.stop()
  }

  /** Handles inputs in order. Inputs that follow from an output are handled before the next output. */
  #handleInputs(): void {
    if (this.#isHandling) return
    this.#isHandling = true
    const { exchange } = this.#deps
    for (;;) {
      const now = this.#now
      const inputs = this.#inputs
      this.#inputs = []
      for (const input of inputs) exchange.handle(now, input)
      const output = exchange.pollOutput()
      if (output === null) break
      this.#perform(output)
    }
    this.#isHandling = false
    this.#scheduleTick()
    this.#deps.onSettled()
  }

  get #now(): number {
    return Math.round(this.#deps.clock.now() * MILLI)
  }

  #scheduleTick(): void {
    const { clock, exchange } = this.#deps
    const wake = this.#deps.isClosed() ? null : exchange.nextWake()
    // An early tick does no harm, so a later time waits for the timer that is set.
    if (wake === null || wake >= this.#tickAt) return
    this.#stopTick?.()
    this.#tickAt = wake
    const due = Math.max(wake / MILLI, clock.now())
    this.#stopTick = clock.after(due - clock.now(), () => this.#handleTimer(due))
  }

  #handleTimer(due: Millis): void {
    const { clock } = this.#deps
    const late = clock.now() - due
    if (late > LATE_TIMER_MIN) {
      this.#stopTick = clock.after(Math.min(late, EXTRA_WAIT_MAX), () => this.#tick())
      return
    }
    this.#tick()
  }

  #tick(): void {
    this.#tickAt = Infinity
    this.handle({ kind: 'tick' })
  }

  #perform(output: Output): void {
    if (this.#deps.isOver()) return
    switch (output.kind) {
      case 'send':
        this.#send(output)
        return
      case 'lookup':
        this.#lookUp(output.cid)
        return
      case 'read':
        this.#read(output.peer, output.cid)
        return
      case 'block-received':
        this.#deps.onBlock(output.block, output.from)
        return
      case 'find-providers':
        void this.#deps.findProviders().then((peers) => this.handle({ kind: 'providers', peers }))
        return
      case 'drop-peer':
        this.#deps.peers.drop(output.peer, output.reason)
        return
    }
  }

  #lookUp(cid: Cid): void {
    const length = this.#superSeeding.isHeldBack(cid) ? null : this.#deps.store.size(cid)
    this.#inputs.push({ kind: 'lookup-result', cid, length })
  }

  #read(peer: PeerId, cid: Cid): void {
    if (this.#superSeeding.isHeldBackFrom(peer, cid)) {
      this.#inputs.push({ kind: 'read', peer, cid, block: null })
      return
    }
    this.#superSeeding.noteSending(peer, cid, this.#deps.store.size(cid) ?? 0)
    void this.#readFor(peer, cid)
  }

  async #readFor(peer: PeerId, cid: Cid): Promise<void> {
    let block: Block | null = null
    try {
      block = { cid, data: await this.#deps.store.read(cid) }
    } catch {
      // The store has reported why. Peers get DONT_HAVE.
    }
    this.handle({ kind: 'read', peer, cid, block })
  }

  #send({ peer, message, blocks }: Output & { kind: 'send' }): void {
    const { peers } = this.#deps
    const { roster } = peers
    const member = roster.get(peer)
    if (member === null) return
    const sent = member.peer.send(encodeMessage(message, blocks, this.#deps.traceFor(peer, message)), blocks.length > 0)
    peers.noteSending(member, message)
    sent.then(
      () => {
        if (!roster.isMember(member)) return
        peers.noteSent(member, blocks)
        for (const { cid } of blocks) this.#superSeeding.noteSent(peer, cid)
        this.handle({ kind: 'writable', peer, roomBytes: roomOf(member) })
      },
      () => {
        if (roster.isMember(member)) peers.remove(peer)
      },
    )
  }
}

function roomOf({ peer }: Member): number {
  return Math.max(0, UNSENT_BYTES_MAX - peer.unsentBytes)
}
