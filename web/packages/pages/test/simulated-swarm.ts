import { buildFile, BLOCKS_MAX, MemoryBlockStore, cidOf, DagWalk, DEPTH_MAX, unixfsV1_2025, type Cid } from '../src/content/index.ts'
import { pattern } from './pattern.ts'
import {
  Exchange,
  encodedLength,
  MILLI,
  type Block,
  type Input,
  type Misbehaviour,
  type Output,
  type PeerId,
} from '../src/bitswap/index.ts'

type Millis = number

/** Content for a swarm: a file in small blocks, so that a test needs little memory. */
export interface SimulatedPage {
  readonly root: Cid
  readonly blocks: readonly Block[]
  /** For each block, the data that a liar sends instead. */
  readonly lies: ReadonlyMap<string, Block>
}

export async function simulatedPage(leaves: number, chunkBytes = 10_000): Promise<SimulatedPage> {
  const blocks: Block[] = []
  const lies = new Map<string, Block>()
  const profile = { ...unixfsV1_2025, chunkBytes, linksMax: 50 }
  // The first bytes make every leaf different, although the pattern repeats.
  const content = new Blob(Array.from({ length: leaves }, (_, i) => [`leaf ${i}`.padEnd(20), pattern(chunkBytes - 20)]).flat())
  const building = buildFile(content, { profile })
  for (;;) {
    const step = await building.next()
    if (step.done) return { root: step.value.cid, blocks, lies }
    const { cid, block } = step.value
    const data = block instanceof Uint8Array ? block : new Uint8Array(await block.arrayBuffer())
    blocks.push({ cid, data })
    const lie = data.map((byte) => byte ^ 1)
    lies.set(cid.key, { cid: await cidOf(cid.codec, lie), data: lie })
  }
}

/** `silent` reads but never sends. `liar` sends wrong data. */
export type Manner = 'honest' | 'silent' | 'liar'

interface Node {
  readonly id: PeerId
  readonly exchange: Exchange
  readonly walk: DagWalk
  readonly store: MemoryBlockStore
  readonly manner: Manner
  readonly bytesPerMs: number
  /** Messages with blocks being sent. The first one sends the next frame. */
  readonly transfers: Transfer[]
  isSending: boolean
  present: boolean
  completeAt: Millis | null
  wakesAt: Millis | null
  readonly dropped: Map<PeerId, Misbehaviour>
  /** Bytes queued for each peer. */
  readonly unsent: Map<PeerId, number>
}

interface Transfer {
  left: number
  readonly frameSent: () => void
  readonly allSent: () => void
}

const LATENCY = 20
const FRAME_BYTES = 65_536
/** Bytes queued for one peer at most. */
const PIPE_BYTES = 1 << 20

/**
 * Peers that exchange one page in simulated time. Each peer's uplink sends blocks frame by frame, in turns if there are
 * several destinations. Every frame then takes `LATENCY`.
 */
export class SimulatedSwarm {
  now: Millis = 0
  readonly nodes = new Map<string, Node>()
  readonly #page: SimulatedPage
  /** Sorted, the latest first. */
  readonly #events: { at: Millis; happen: () => void }[] = []

  constructor(page: SimulatedPage) {
    this.#page = page
  }

  /** Adds a node now. `holds` says which blocks it starts with. */
  join(
    name: string,
    options: { isProvider?: boolean; holds?: (i: number) => boolean; manner?: Manner; bytesPerMs?: number; seed?: number } = {},
  ): Node {
    const { isProvider = false, holds = () => isProvider, manner = 'honest', bytesPerMs = 1000, seed = 1 } = options
    const limits = { bytesMax: 1 << 30, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX }
    const node: Node = {
      id: name as PeerId,
      exchange: new Exchange(BigInt(seed)),
      walk: new DagWalk(this.#page.root, limits),
      store: new MemoryBlockStore(1 << 30),
      manner,
      bytesPerMs,
      transfers: [],
      isSending: false,
      present: true,
      completeAt: null,
      wakesAt: null,
      dropped: new Map(),
      unsent: new Map(),
    }
    for (const [i, { cid, data }] of this.#page.blocks.entries()) if (holds(i)) node.store.put(cid, data)
    const others = [...this.nodes.values()].filter(({ present }) => present)
    this.nodes.set(name, node)
    this.#want(node, node.walk.start())
    for (const other of others) {
      this.#connect(other, node.id, isProvider)
      this.#connect(node, other.id, other.walk.isComplete)
    }
    return node
  }

  leave(name: string): void {
    const node = this.node(name)
    node.present = false
    for (const other of this.nodes.values()) if (other.present) this.#tell(other, { kind: 'disconnected', peer: node.id })
  }

  node(name: string): Node {
    const node = this.nodes.get(name)
    if (node === undefined) throw new Error(`no node is called ${name}`)
    return node
  }

  /** Runs until there are no events left, until the time `until`, or until `stop` returns true. */
  run(until: Millis, stop: () => boolean = () => false): void {
    while (!stop()) {
      const next = this.#events.at(-1)
      if (next === undefined || next.at > until) return
      this.#events.pop()
      this.now = next.at
      next.happen()
    }
  }

  /** Whether at least one of these nodes has each block. */
  isSpreadOver(names: readonly string[]): boolean {
    return this.#page.blocks.every(({ cid }) => names.some((name) => this.node(name).store.has(cid)))
  }

  received(by: string, from: string): number {
    return this.node(by).exchange.peer(from as PeerId)?.bytesIn ?? 0
  }

  #at(at: Millis, happen: () => void): void {
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >> 1
      // Among events of the same time, the one added last comes first in the list, and so runs last.
      if ((this.#events[middle]?.at ?? 0) > at) low = middle + 1
      else high = middle
    }
    this.#events.splice(low, 0, { at, happen })
  }

  #connect(node: Node, peer: PeerId, isProvider: boolean): void {
    this.#tell(node, { kind: 'connected', peer, isProvider })
    this.#tell(node, { kind: 'writable', peer, roomBytes: PIPE_BYTES })
  }

  #tell(node: Node, input: Input): void {
    if (!node.present) return
    node.exchange.handle(Math.round(this.now * MILLI), input)
    for (let output = node.exchange.pollOutput(); output !== null; output = node.exchange.pollOutput()) {
      this.#carryOut(node, output)
    }
    const due = node.exchange.nextWake()
    const wake = due === null ? null : due / MILLI
    if (wake === null || (node.wakesAt !== null && node.wakesAt <= wake && node.wakesAt > this.now)) return
    node.wakesAt = wake
    this.#at(Math.max(wake, this.now), () => {
      if (node.wakesAt !== wake) return
      node.wakesAt = null
      this.#tell(node, { kind: 'tick' })
    })
  }

  #carryOut(node: Node, output: Output): void {
    switch (output.kind) {
      case 'send':
        this.#send(node, output)
        return
      case 'lookup':
        this.#at(this.now, () => this.#tell(node, { kind: 'lookup-result', cid: output.cid, length: node.store.size(output.cid) }))
        return
      case 'read': {
        const { peer, cid } = output
        const data = node.store.get(cid)
        const block = data instanceof Uint8Array ? { cid, data } : null
        this.#at(this.now, () => this.#tell(node, { kind: 'read', peer, cid, block }))
        return
      }
      case 'find-providers':
        this.#at(this.now + 2 * LATENCY, () => this.#tell(node, { kind: 'providers', peers: [] }))
        return
      case 'block-received': {
        const { cid, data } = output.block
        node.store.put(cid, data)
        this.#at(this.now, () => this.#tell(node, { kind: 'stored', cid, length: data.length }))
        this.#want(node, node.walk.arrived(cid, data.length, data))
        if (node.walk.isComplete) node.completeAt ??= this.now
        return
      }
      case 'drop-peer':
        node.dropped.set(output.peer, output.reason)
        return
    }
  }

  /** Wants the blocks that a node lacks, following the links of the blocks it has. */
  #want(node: Node, wanted: ReturnType<DagWalk['start']>): void {
    const missing: ReturnType<DagWalk['start']> = []
    for (let next = wanted.shift(); next !== undefined; next = wanted.shift()) {
      const here = node.store.get(next.cid)
      if (here instanceof Uint8Array) wanted.push(...node.walk.arrived(next.cid, here.length, here))
      else missing.push(next)
    }
    const wants = missing.map(({ cid, size, rank }) => ({ cid, length: size, urgency: rank === 'inner' ? 1 : 0 }))
    if (wants.length > 0) this.#at(this.now, () => this.#tell(node, { kind: 'want', wants }))
  }

  #send(from: Node, { peer, message, blocks }: Output & { kind: 'send' }): void {
    if (from.manner === 'silent') return
    const carried = blocks.map((block) => (from.manner === 'liar' ? (this.#page.lies.get(block.cid.key) ?? block) : block))
    const to = this.node(peer)
    const bytes = encodedLength(message, blocks)
    from.unsent.set(peer, (from.unsent.get(peer) ?? 0) + bytes)
    const isThere = () => from.present && !to.dropped.has(from.id)
    const allSent = () => {
      const unsent = (from.unsent.get(peer) ?? 0) - bytes
      from.unsent.set(peer, unsent)
      this.#at(this.now + LATENCY, () => {
        if (isThere()) this.#tell(to, { kind: 'message', peer: from.id, message, blocks: carried, skippedEntries: 0, skippedBlocks: 0 })
      })
      this.#tell(from, { kind: 'writable', peer, roomBytes: Math.max(0, PIPE_BYTES - unsent) })
    }
    if (carried.length === 0) {
      // A small message. It is sent between the frames of blocks.
      this.#at(this.now, allSent)
      return
    }
    const frameSent = () => this.#at(this.now + LATENCY, () => isThere() && this.#tell(to, { kind: 'partial-message', peer: from.id }))
    from.transfers.push({ left: bytes, frameSent, allSent })
    if (!from.isSending) this.#nextFrame(from)
  }

  #nextFrame(from: Node): void {
    const [transfer] = from.transfers
    from.isSending = transfer !== undefined
    if (transfer === undefined) return
    const bytes = Math.min(FRAME_BYTES, transfer.left)
    this.#at(this.now + bytes / from.bytesPerMs, () => {
      from.transfers.shift()
      transfer.left -= bytes
      if (transfer.left > 0) {
        transfer.frameSent()
        from.transfers.push(transfer)
      }
      // Before the events that the end of this frame may cause.
      this.#nextFrame(from)
      if (transfer.left === 0) transfer.allSent()
    })
  }
}
