import {
  buildFile, BLOCKS_MAX, BlockStore, cidOf, DagWalk, DEPTH_MAX, unixfsV1_2025, type Bytes, type Cid,
} from '../content/index.ts'
import { pattern } from '../content/pattern.ts'
import { Exchange, type DropReason, type Have, type Input, type Millis, type Output, type PeerId } from './index.ts'

/** Content for a swarm: a file in small blocks, so that much happens in little memory. */
export interface SimulatedPage {
  readonly root: Cid
  readonly blocks: readonly { cid: Cid; bytes: Bytes }[]
  /** For each block, what a liar sends in its place. */
  readonly lies: ReadonlyMap<string, { cid: Cid; bytes: Bytes }>
}

export async function simulatedPage(leaves: number, chunkBytes = 10_000): Promise<SimulatedPage> {
  const blocks: { cid: Cid; bytes: Bytes }[] = []
  const lies = new Map<string, { cid: Cid; bytes: Bytes }>()
  const profile = { ...unixfsV1_2025, chunkBytes, linksMax: 50 }
  // A few bytes at the front make every leaf a block of its own, though the pattern repeats.
  const content = new Blob(Array.from({ length: leaves }, (_, i) => [`leaf ${i}`.padEnd(20), pattern(chunkBytes - 20)]).flat())
  const building = buildFile(content, { profile })
  for (;;) {
    const step = await building.next()
    if (step.done) return { root: step.value.cid, blocks, lies }
    const { cid, block } = step.value
    const bytes = block instanceof Uint8Array ? block : new Uint8Array(await block.arrayBuffer())
    blocks.push({ cid, bytes })
    const lie = bytes.map((byte) => byte ^ 1)
    lies.set(cid.key, { cid: await cidOf(cid.codec, lie), bytes: lie })
  }
}

/** `silent` reads but never sends; `liar` sends other bytes than asked for. */
export type Manner = 'honest' | 'silent' | 'liar'

interface Node {
  readonly id: PeerId
  readonly exchange: Exchange
  readonly walk: DagWalk
  readonly store: BlockStore
  readonly manner: Manner
  readonly bytesPerMs: number
  /** Messages with blocks on their way out, the one whose frame is next first. */
  readonly transfers: Transfer[]
  isSending: boolean
  present: boolean
  completeAt: Millis | null
  wakesAt: Millis | null
  readonly dropped: Map<PeerId, DropReason>
}

interface Transfer {
  left: number
  readonly frameSent: () => void
  readonly allSent: () => void
}

const LATENCY = 20
const FRAME_BYTES = 65_536

/**
 * Peers that exchange one page in pretend time. Blocks take their time on their sender's line, frame by frame and in
 * turns when they go to several; then everything takes `LATENCY`.
 */
export class SimulatedSwarm {
  now: Millis = 0
  readonly nodes = new Map<string, Node>()
  readonly #page: SimulatedPage
  /** Latest first. */
  readonly #events: { at: Millis; happen: () => void }[] = []

  constructor(page: SimulatedPage) {
    this.#page = page
  }

  /** A node joins, now. `holds` tells which blocks it starts with. */
  join(
    name: string,
    options: { have?: Have; holds?: (i: number) => boolean; manner?: Manner; bytesPerMs?: number; start?: number } = {},
  ): Node {
    const { have = 'none', holds = () => have === 'all', manner = 'honest', bytesPerMs = 1000, start = 0 } = options
    const limits = { bytesMax: 1 << 30, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX }
    const node: Node = {
      id: name as PeerId, exchange: new Exchange(start), walk: new DagWalk(this.#page.root, limits),
      store: new BlockStore(1 << 30), manner, bytesPerMs, transfers: [], isSending: false, present: true, completeAt: null, wakesAt: null,
      dropped: new Map(),
    }
    for (const [i, { cid, bytes }] of this.#page.blocks.entries()) {
      if (!holds(i)) continue
      node.store.put(cid, bytes)
      this.#tell(node, { kind: 'held', cid, size: bytes.length })
    }
    const others = [...this.nodes.values()].filter(({ present }) => present)
    this.nodes.set(name, node)
    this.#want(node, node.walk.start())
    for (const other of others) {
      this.#tell(other, { kind: 'joined', peer: node.id, have })
      this.#tell(node, { kind: 'joined', peer: other.id, have: haveOf(other) })
    }
    return node
  }

  leave(name: string): void {
    const node = this.node(name)
    node.present = false
    for (const other of this.nodes.values()) if (other.present) this.#tell(other, { kind: 'left', peer: node.id })
  }

  node(name: string): Node {
    const node = this.nodes.get(name)
    if (node === undefined) throw new Error(`${name} has joined`)
    return node
  }

  /** Lets time pass until nothing more happens, `until` is reached, or `stop` says so. */
  run(until: Millis, stop: () => boolean = () => false): void {
    while (!stop()) {
      const next = this.#events.at(-1)
      if (next === undefined || next.at > until) return
      this.#events.pop()
      this.now = next.at
      next.happen()
    }
  }

  /** Whether every block is with at least one of these. */
  isSpreadOver(names: readonly string[]): boolean {
    return this.#page.blocks.every(({ cid }) => names.some((name) => this.node(name).store.has(cid)))
  }

  received(by: string, from: string): number {
    return this.node(by).exchange.peers().find(({ id }) => id === from)?.receivedBytes ?? 0
  }

  #at(at: Millis, happen: () => void): void {
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >> 1
      // Of one time, the last to come goes first in the list, and so happens last.
      if ((this.#events[middle]?.at ?? 0) > at) low = middle + 1
      else high = middle
    }
    this.#events.splice(low, 0, { at, happen })
  }

  #tell(node: Node, input: Input): void {
    if (!node.present) return
    for (const output of node.exchange.handle(this.now, input)) this.#carryOut(node, output)
    const wake = node.exchange.nextWake()
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
      case 'arrived': {
        node.store.put(output.cid, output.bytes)
        this.#want(node, node.walk.arrived(output.cid, output.bytes.length, output.bytes))
        if (node.walk.isComplete) node.completeAt ??= this.now
        return
      }
      case 'drop':
        node.dropped.set(output.peer, output.reason)
        return
    }
  }

  /** Wants what a node lacks, walking through what it has. */
  #want(node: Node, wanted: ReturnType<DagWalk['start']>): void {
    const missing: ReturnType<DagWalk['start']> = []
    for (let next = wanted.shift(); next !== undefined; next = wanted.shift()) {
      const here = node.store.get(next.cid)
      if (here instanceof Uint8Array) wanted.push(...node.walk.arrived(next.cid, here.length, here))
      else missing.push(next)
    }
    if (missing.length > 0) this.#at(this.now, () => this.#tell(node, { kind: 'want', blocks: missing }))
  }

  #send(from: Node, { peer, lane, message, blocks }: Output & { kind: 'send' }): void {
    if (from.manner === 'silent') return
    const carried = blocks.map((cid) => {
      const bytes = from.store.get(cid)
      if (!(bytes instanceof Uint8Array)) throw new Error('only what is held is sent')
      const lie = from.manner === 'liar' ? this.#page.lies.get(cid.key) : undefined
      return lie ?? { cid, bytes }
    })
    const to = this.node(peer)
    const isThere = () => from.present && !to.dropped.has(from.id)
    const arrive = () =>
      this.#at(this.now + LATENCY, () => {
        if (isThere()) this.#tell(to, { kind: 'message', peer: from.id, message, blocks: carried, uncheckable: 0 })
      })
    const allSent = () => {
      this.#tell(from, { kind: 'sent', peer, lane })
      arrive()
    }
    if (lane === 'control') {
      // Small, and slips in between.
      this.#at(this.now, allSent)
      return
    }
    const frameSent = () =>
      this.#at(this.now + LATENCY, () => isThere() && this.#tell(to, { kind: 'progress', peer: from.id }))
    from.transfers.push({ left: carried.reduce((sum, block) => sum + block.bytes.length, 0), frameSent, allSent })
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
      // Before what the end of this one may start.
      this.#nextFrame(from)
      if (transfer.left === 0) transfer.allSent()
    })
  }
}

function haveOf(node: Node): Have {
  if (node.walk.isComplete) return 'all'
  return node.store.blocks > 0 ? 'some' : 'none'
}
