import { encodeMessage } from '../bitswap/index.ts'
import type { Blocks, Bytes, Cid } from '../content/index.ts'
import type { DropReason, Exchange, Input, Output, PeerId } from '../exchange/index.ts'
import type { Clock } from './api.ts'
import type { Member, Roster } from './roster.ts'

export interface CarrierDeps {
  readonly exchange: Exchange
  readonly clock: Clock
  readonly roster: Roster
  readonly store: Blocks
  readonly isClosed: () => boolean
  /** Whether the page hears nothing any more: it has failed, or is closed. */
  readonly isOver: () => boolean
  /** A verified block that was wanted. */
  readonly arrived: (cid: Cid, bytes: Bytes) => void
  readonly dropped: (peer: PeerId, reason: DropReason) => void
  /** A message went to this peer, with these blocks. */
  readonly moved: (member: Member, blocks: readonly Cid[]) => void
  /** A peer cannot be reached any more. */
  readonly lost: (peer: PeerId) => void
  /** All inputs so far have been carried out. */
  readonly settled: () => void
}

/** Carries between a page's exchange and its peers: tells it what happens, in order, and does what it wants done. */
export class Carrier {
  /** Bytes of blocks that went to all peers. */
  sentBytes = 0
  readonly #deps: CarrierDeps
  readonly #inputs: Input[] = []
  #isHandling = true
  #stopTick: (() => void) | null = null
  #tickAt = Infinity

  constructor(deps: CarrierDeps) {
    this.#deps = deps
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
    for (const input of inputs) this.#inputs.push(input)
    this.#handleInputs()
  }

  stop(): void {
    this.#stopTick?.()
  }

  /** Handles inputs in order; what carrying out an output brings up comes after all before it. */
  #handleInputs(): void {
    if (this.#isHandling) return
    this.#isHandling = true
    for (let input = this.#inputs.shift(); input !== undefined; input = this.#inputs.shift()) {
      for (const output of this.#deps.exchange.handle(this.#deps.clock.now(), input)) this.#carryOut(output)
    }
    this.#isHandling = false
    this.#scheduleTick()
    this.#deps.settled()
  }

  #scheduleTick(): void {
    const { clock, exchange } = this.#deps
    const wake = this.#deps.isClosed() ? null : exchange.nextWake()
    // A tick that comes too early does no harm, so a later wish waits for it.
    if (wake === null || wake >= this.#tickAt) return
    this.#stopTick?.()
    this.#tickAt = wake
    this.#stopTick = clock.after(Math.max(0, wake - clock.now()), () => {
      this.#tickAt = Infinity
      this.tell({ kind: 'tick' })
    })
  }

  #carryOut(output: Output): void {
    if (this.#deps.isOver()) return
    switch (output.kind) {
      case 'send':
        void this.#send(output)
        return
      case 'arrived':
        this.#deps.arrived(output.cid, output.bytes)
        return
      case 'drop':
        this.#deps.dropped(output.peer, output.reason)
        return
    }
  }

  async #send({ peer, lane, message, blocks }: Output & { kind: 'send' }): Promise<void> {
    const { roster, store } = this.#deps
    const member = roster.get(peer)
    if (member === null) return
    const carried: { cid: Cid; data: Bytes }[] = []
    for (const cid of blocks) {
      try {
        carried.push({ cid, data: await store.read(cid) })
      } catch {
        this.tell({ kind: 'lost', peer, cid })
      }
    }
    try {
      const isEmpty = carried.length + message.wants.length + message.presences.length === 0
      if (!isEmpty) await member.peer.send(encodeMessage(message, carried))
      this.sentBytes += carried.reduce((sum, { data }) => sum + data.length, 0)
      if (roster.isMember(member)) {
        this.#deps.moved(member, carried.map(({ cid }) => cid))
        this.tell({ kind: 'sent', peer, lane })
      }
    } catch {
      if (roster.isMember(member)) this.#deps.lost(peer)
    }
  }
}
