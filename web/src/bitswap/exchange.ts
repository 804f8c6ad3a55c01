import type { Cid } from '../content/index.ts'
import { Asking } from './asking/asking.ts'
import { Ledger } from './ledger/ledger.ts'
import { defaultExchangeLimits, type ExchangeLimits } from './limits.ts'
import { messageBytes, wantBytes, type Message, type WantEntry } from './message.ts'
import type { Block, Input, Misbehaviour, Output, Received } from './output.ts'
import { PeerMap, sorted, type PeerId } from './peer.ts'
import { Pipe } from './pipe.ts'
import { earliest, SECOND, since, type Nanos } from './time.ts'
import { noTotals, type PeerTotals, type Totals } from './totals.ts'
import { Uplink } from './uplink.ts'

/** How long a peer that waits for blocks is told nothing before it is told that it is not forgotten. */
const REMINDED_AFTER: Nanos = 60 * SECOND

/**
 * All that one page does in Bitswap: it asks its peers for the blocks that it wants, and gives peers the blocks that they
 * want. It knows no network, no clock, no dice and no store: a driver tells it what happened, and does what it puts out.
 * It is the Rust core's `Exchange` once more, for one session, with peers that all speak Bitswap 1.2.
 *
 * After each input, every output is to be drained, and `tick` told at `nextWake`.
 */
export class Exchange {
  readonly totals: Totals = noTotals()
  readonly #pause: Nanos
  readonly #asking: Asking
  readonly #ledger: Ledger
  readonly #pipes = new PeerMap<Pipe>()
  readonly #uplink: Uplink
  /** Peers to whom something is to be said when they may be spoken to again. */
  readonly #quiet = new Map<PeerId, Nanos>()
  /** When it was looked last who waits for blocks and heard nothing for long. */
  #remindedAt: Nanos = 0
  #now: Nanos = 0
  /** Whether all that follows from the inputs so far is among the outputs. */
  #isSettled = true
  #outputs: Output[] = []

  /** `seed` decides between equals: those of one page must have different ones, or all would ask for the same first. */
  constructor(seed: bigint, limits: ExchangeLimits = defaultExchangeLimits) {
    this.#pause = limits.gossipPause
    this.#asking = new Asking(limits, seed, this.totals)
    this.#ledger = new Ledger(limits, this.totals, seed)
    this.#uplink = new Uplink(limits.readingBytesMax)
  }

  /** Takes one input. */
  handle(now: Nanos, input: Input): void {
    // The most frequent of all inputs, and hardly ever does anything follow from it.
    if (input.kind === 'arriving' && !this.#asking.heard(now, input.peer, 'part')) return
    this.#now = now
    this.#isSettled = false
    switch (input.kind) {
      case 'connected':
        this.#forget(input.peer)
        this.#pipes.set(input.peer, new Pipe(now))
        this.#asking.connected(now, input.peer, input.isProvider)
        this.#ledger.connected(input.peer)
        return
      case 'disconnected':
        this.#forget(input.peer)
        return
      case 'received':
        this.#received(now, input.peer, input)
        return
      case 'arriving':
        return
      case 'writable':
        this.#writable(now, input.peer, input.roomBytes)
        return
      case 'have':
        this.#ledger.have(input.cid, input.length)
        return
      case 'found':
        this.#ledger.found(input.cid, input.length)
        return
      case 'read':
        this.#ledger.read(input.peer, input.cid, input.block)
        return
      case 'want':
        for (const want of input.wants) this.#asking.want(now, want)
        return
      case 'unwant':
        for (const cid of input.cids) this.#asking.unwant(cid)
        return
      case 'urgent':
        this.#asking.urgent(now, input.cids)
        return
      case 'providers':
        this.#asking.providers(now, input.peers)
        return
      case 'tick':
        for (const peer of this.#asking.stalled(now)) this.#drop(peer, 'stalled')
        this.#asking.handleTick(now)
        this.#giveUpWhatIsStuck(now)
        return
    }
  }

  /** The next thing to do; `null` when there is none. */
  pollOutput(): Output | null {
    if (this.#outputs.length === 0 && !this.#isSettled) {
      this.#isSettled = true
      this.#settle()
    }
    return this.#outputs.shift() ?? null
  }

  /** When to tell `tick`; `null` while nothing is due. */
  nextWake(): Nanos | null {
    return earliest(this.#asking.nextWake(), this.#uplink.nextWake(), this.#ledger.heldUntil, ...this.#quiet.values())
  }

  has(peer: PeerId): boolean {
    return this.#pipes.has(peer)
  }

  /** What passed between us and a peer; `null` when it is not connected. */
  peer(peer: PeerId): PeerTotals | null {
    const pipe = this.#pipes.get(peer)
    const view = this.#asking.views.get(peer)
    if (pipe === undefined || view === undefined) return null
    return {
      blocksIn: view.useful,
      bytesIn: view.bytesIn,
      blocksOut: pipe.blocksOut,
      bytesOut: pipe.bytesOut,
      askedBlocks: view.asked.size,
      wants: this.#ledger.wantsOf(peer),
      windowBytes: view.pace.window,
      bytesPerSecond: view.pace.rate,
      latency: view.pace.base,
    }
  }

  peers(): PeerId[] {
    return [...this.#pipes.keys()]
  }

  /** Whether anybody is known to have anything of what is wanted. */
  get isAnythingAvailable(): boolean {
    return this.#asking.isAnythingAvailable
  }

  #received(now: Nanos, peer: PeerId, { message, blocks, passedOver, passedOverBlocks }: Received): void {
    if (!this.#pipes.has(peer)) return
    this.totals.messagesIn++
    this.totals.passedOver += passedOver
    this.#asking.heard(now, peer, blocks.length > 0 ? 'blocks' : 'words')
    let strange = passedOverBlocks
    this.totals.unaskedBlocks += strange
    for (const block of blocks) if (this.#block(now, peer, block)) strange++
    for (const { cid, have } of message.presences) this.#asking.presence(now, peer, cid, have)
    const reason = (strange > 0 ? this.#asking.sentStrangeBlocks(peer, strange) : null) ?? this.#asking.misbehaviour(peer)
    if (reason === null) this.#wanted(peer, message)
    else this.#drop(peer, reason)
  }

  /** Whether nobody ever asked for a block of this name. */
  #block(now: Nanos, peer: PeerId, block: Block): boolean {
    const bytes = block.data.length
    switch (this.#asking.block(now, peer, block.cid, bytes)) {
      case 'wanted':
        this.totals.blocksIn++
        this.totals.bytesIn += bytes
        this.#outputs.push({ kind: 'got', block, from: peer })
        return false
      case 'duplicate':
        this.totals.duplicateBlocks++
        this.totals.duplicateBytes += bytes
        return false
      case 'unasked':
        this.totals.unaskedBlocks++
        this.totals.unaskedBytes += bytes
        return true
    }
  }

  #giveUpWhatIsStuck(now: Nanos): void {
    if (!this.#uplink.isStuck(now)) return
    for (const pipe of this.#pipes.values()) pipe.moving = 0
    this.#uplink.giveUp()
  }

  #writable(now: Nanos, peer: PeerId, roomBytes: number): void {
    const pipe = this.#pipes.get(peer)
    if (pipe === undefined) return
    const hadNone = pipe.room === 0
    const left = pipe.hasRoom(roomBytes)
    if (left > 0) this.#uplink.left(now, left)
    if (hadNone) this.#asking.touched.add(peer)
  }

  /** A peer wants this of us. */
  #wanted(peer: PeerId, { full, wants }: Message): void {
    const pipe = this.#pipes.get(peer)
    const isOnItsWay = ({ cid, cancel, type }: WantEntry) => !cancel && type === 'block' && pipe?.carries(cid) === true
    const looks = this.#ledger.wanted(peer, full, wants.filter((want) => !isOnItsWay(want)))
    for (const cid of looks) this.#outputs.push({ kind: 'look', cid })
  }

  #forget(peer: PeerId): void {
    const pipe = this.#pipes.get(peer)
    if (pipe === undefined) return
    this.#pipes.delete(peer)
    this.#quiet.delete(peer)
    if (pipe.moving > 0) this.#uplink.left(this.#now, pipe.moving)
    this.#asking.disconnected(peer)
    this.#ledger.disconnected(peer)
  }

  #drop(peer: PeerId, reason: Misbehaviour): void {
    this.#forget(peer)
    this.totals.droppedPeers++
    this.#outputs.push({ kind: 'drop', peer, reason })
  }

  /**
   * What follows from all inputs so far. Only when the outputs are drained: what several inputs want to be said goes with
   * one message.
   */
  #settle(): void {
    this.#asking.fill(this.#now)
    const missed = this.#asking.search(this.#now)
    if (missed !== null) this.#outputs.push({ kind: 'find-providers', cid: missed })
    const peers = new Set([...this.#asking.touched, ...this.#ledger.touched])
    this.#asking.touched.clear()
    this.#ledger.touched.clear()
    for (const [peer, until] of this.#quiet) {
      if (until > this.#now) continue
      this.#quiet.delete(peer)
      peers.add(peer)
    }
    const { blocksOut } = this.totals
    for (const peer of sorted(peers)) this.#speak(peer)
    if (this.totals.blocksOut > blocksOut) this.#remind()
    this.#readAhead()
  }

  /**
   * While others have their turn, those who have waited for long are told what they have to wait for, lest they give us
   * up. Who sends nothing to anybody reminds nobody.
   */
  #remind(): void {
    if (since(this.#now, this.#remindedAt) < REMINDED_AFTER / 4) return
    this.#remindedAt = this.#now
    for (const { peer, pendingBytes } of this.#ledger.waiting()) {
      const pipe = this.#pipes.get(peer)
      if (pipe === undefined || pipe.room === 0 || since(this.#now, pipe.spokenAt) < REMINDED_AFTER) continue
      this.#send(peer, pipe, { full: false, wants: [], presences: [], pendingBytes }, [])
    }
  }

  /** Tells a peer what there is to tell, unless that can wait; or has to, for room. */
  #speak(peer: PeerId): void {
    const pipe = this.#pipes.get(peer)
    if (pipe === undefined) return
    const isUrgent = this.#asking.isUrgent(peer) || this.#ledger.isUrgent(peer)
    if (pipe.quietUntil > this.#now && !isUrgent) {
      this.#quiet.set(peer, pipe.quietUntil)
      return
    }
    while (pipe.room > 0) {
      const asked = this.#asking.speak(peer, pipe.room)
      const said = asked.wants.reduce((sum, want) => sum + wantBytes(want), 0)
      const { presences, blocks, pendingBytes, isMore } = this.#ledger.answer(peer, Math.max(0, pipe.room - said))
      if (asked.wants.length + presences.length + blocks.length === 0) return
      this.#quiet.delete(peer)
      pipe.quietUntil = this.#now + this.#pause
      this.#send(peer, pipe, { full: false, wants: asked.wants, presences, pendingBytes }, blocks)
      if (!asked.isMore && !isMore) return
    }
  }

  #send(peer: PeerId, pipe: Pipe, message: Message, blocks: readonly Block[]): void {
    pipe.spokenAt = this.#now
    const bytes = messageBytes(message, blocks)
    pipe.room = Math.max(0, pipe.room - bytes)
    if (blocks.length > 0) {
      pipe.fill(bytes, blocks.map(({ cid }: { cid: Cid }) => cid))
      this.#uplink.sent(this.#now, bytes)
    }
    const blockBytes = blocks.reduce((sum, { data }) => sum + data.length, 0)
    pipe.blocksOut += blocks.length
    pipe.bytesOut += blockBytes
    this.totals.messagesOut++
    this.totals.blocksOut += blocks.length
    this.totals.bytesOut += blockBytes
    this.#outputs.push({ kind: 'send', peer, message, blocks })
  }

  #readAhead(): void {
    this.#ledger.heldUntil = null
    const room = (peer: PeerId) => this.#pipes.get(peer)?.room ?? 0
    while (this.#ledger.isAnyoneReady) {
      const roomBytes = this.#uplink.room(this.#ledger.readingBytes)
      const bytesMax = Math.min(roomBytes, this.#uplink.batchBytesMax)
      const isSource = this.#asking.wants.size === 0
      const next = this.#ledger.readNext(this.#now, bytesMax, room, isSource)
      if (next === null) return
      for (const cid of next.cids) this.#outputs.push({ kind: 'read', peer: next.peer, cid })
    }
  }
}
