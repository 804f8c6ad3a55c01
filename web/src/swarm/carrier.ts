import {
  encodeMessage, MILLI, type Block, type Exchange, type Input, type Misbehaviour, type Output, type PeerId,
} from '../bitswap/index.ts'
import type { Blocks, Cid } from '../content/index.ts'
import type { Clock, Millis } from './api.ts'
import type { Member, Roster } from './roster.ts'
import { SecondCopies } from './second-copies.ts'

/**
 * Bytes of messages to one peer that have not left: the exchange gives it no more before some have. More than a slow line
 * ever has on its way, so that a want need not wait for a block to leave.
 */
const OUTBOX_BYTES_MAX = 4 << 20

/**
 * A timer that rings so late tells that this tab was held up: what others said meanwhile waits behind it, and they are not
 * to be held for silent. It rings again after as long, and after no more than the second.
 */
const LATE: Millis = 150
const LATE_MAX: Millis = 5000

export interface CarrierDeps {
  readonly exchange: Exchange
  readonly clock: Clock
  readonly roster: Roster
  readonly store: Blocks
  readonly isClosed: () => boolean
  /** Whether the page hears nothing any more: it has failed, or is closed. */
  readonly isOver: () => boolean
  /** Whether what was given to one peer is for that one to pass on, see `SecondCopies`. */
  readonly isSource: () => boolean
  /** A verified block that was wanted. */
  readonly got: (block: Block) => void
  readonly dropped: (peer: PeerId, reason: Misbehaviour) => void
  /** Looks for others; resolves with those of them who are said to have everything. */
  readonly findProviders: () => Promise<readonly PeerId[]>
  /** A message for this peer waits to go. */
  readonly sending: (member: Member) => void
  /** A message went to this peer, with these blocks. */
  readonly moved: (member: Member, blocks: readonly Block[]) => void
  /** A peer cannot be reached any more. */
  readonly lost: (peer: PeerId) => void
  /** All inputs so far have been carried out. */
  readonly settled: () => void
}

/** Carries between a page's exchange and its peers: tells it what happens, in order, and does what it wants done. */
export class Carrier {
  readonly #deps: CarrierDeps
  readonly #secondCopies: SecondCopies
  #inputs: Input[] = []
  #isHandling = true
  #stopTick: (() => void) | null = null
  #tickAt = Infinity

  constructor(deps: CarrierDeps) {
    this.#deps = deps
    this.#secondCopies = new SecondCopies({
      clock: deps.clock,
      isSource: deps.isSource,
      letGo: (cid, length) => this.tell({ kind: 'have', cid, length }),
    })
  }

  /** From now on there is somebody to speak to. */
  start(): void {
    this.#isHandling = false
    this.#handleInputs()
  }

  tell(input: Input): void {
    this.tellAll([input])
  }

  tellAll(inputs: readonly Input[]): void {
    for (const input of inputs) {
      this.#secondCopies.hear(input)
      this.#inputs.push(input)
    }
    this.#handleInputs()
  }

  /** A peer is here. */
  connect(member: Member): void {
    const peer = member.peer.id
    this.tellAll([
      { kind: 'connected', peer, isProvider: member.have === 'all' },
      { kind: 'writable', peer, roomBytes: roomOf(member) },
    ])
  }

  stop(): void {
    this.#stopTick?.()
    this.#secondCopies.stop()
  }

  /** Handles inputs in order; what carrying out an output brings up comes before the next output. */
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
      this.#carryOut(output)
    }
    this.#isHandling = false
    this.#scheduleTick()
    this.#deps.settled()
  }

  get #now(): number {
    return Math.round(this.#deps.clock.now() * MILLI)
  }

  #scheduleTick(): void {
    const { clock, exchange } = this.#deps
    const wake = this.#deps.isClosed() ? null : exchange.nextWake()
    // A tick that comes too early does no harm, so a later wish waits for it.
    if (wake === null || wake >= this.#tickAt) return
    this.#stopTick?.()
    this.#tickAt = wake
    const due = Math.max(wake / MILLI, clock.now())
    this.#stopTick = clock.after(due - clock.now(), () => this.#ring(due))
  }

  #ring(due: Millis): void {
    const { clock } = this.#deps
    const late = clock.now() - due
    if (late > LATE) {
      this.#stopTick = clock.after(Math.min(late, LATE_MAX), () => this.#tick())
      return
    }
    this.#tick()
  }

  #tick(): void {
    this.#tickAt = Infinity
    this.tell({ kind: 'tick' })
  }

  #carryOut(output: Output): void {
    if (this.#deps.isOver()) return
    switch (output.kind) {
      case 'send':
        this.#send(output)
        return
      case 'look':
        this.#look(output.cid)
        return
      case 'read':
        this.#read(output.peer, output.cid)
        return
      case 'got':
        this.#deps.got(output.block)
        return
      case 'find-providers':
        void this.#deps.findProviders().then((peers) => this.tell({ kind: 'providers', peers }))
        return
      case 'drop':
        this.#deps.dropped(output.peer, output.reason)
        return
    }
  }

  #look(cid: Cid): void {
    const length = this.#secondCopies.isHeldBack(cid) ? null : this.#deps.store.size(cid)
    this.#inputs.push({ kind: 'found', cid, length })
  }

  #read(peer: PeerId, cid: Cid): void {
    if (this.#secondCopies.isHeldBackFrom(peer, cid)) {
      this.#inputs.push({ kind: 'read', peer, cid, block: null })
      return
    }
    this.#secondCopies.goes(peer, cid, this.#deps.store.size(cid) ?? 0)
    void this.#readFor(peer, cid)
  }

  async #readFor(peer: PeerId, cid: Cid): Promise<void> {
    let block: Block | null = null
    try {
      block = { cid, data: await this.#deps.store.read(cid) }
    } catch {
      // The store has told why; who wants it is told that it is not here.
    }
    this.tell({ kind: 'read', peer, cid, block })
  }

  #send({ peer, message, blocks }: Output & { kind: 'send' }): void {
    const { roster } = this.#deps
    const member = roster.get(peer)
    if (member === null) return
    const sent = member.peer.send(encodeMessage(message, blocks))
    this.#deps.sending(member)
    sent.then(
      () => {
        if (!roster.isMember(member)) return
        this.#deps.moved(member, blocks)
        for (const { cid } of blocks) this.#secondCopies.left(peer, cid)
        this.tell({ kind: 'writable', peer, roomBytes: roomOf(member) })
      },
      () => {
        if (roster.isMember(member)) this.#deps.lost(peer)
      },
    )
  }
}

function roomOf({ peer }: Member): number {
  return Math.max(0, OUTBOX_BYTES_MAX - peer.unsentBytes)
}
