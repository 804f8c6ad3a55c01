import { encodeHeads, type Block, type HeadMessage, type PeerId } from '../../bitswap/index.ts'
import { isSameBytes, type Bytes } from '../../content/index.ts'
import { type Head, HEAD_BYTES, LiveError, type Offer } from '../../live/index.ts'
import type { Clock, Millis } from '../clock.ts'
import { RecentSet } from '../../bitswap/index.ts'

/** How long a new head waits for others, before it is sent to all peers. */
const SEND_INTERVAL: Millis = 100
/** How often a peer with an older head gets the newest one. */
const REPLY_INTERVAL: Millis = 1000
/** Peers whose heads wait to be verified. Those of further peers are dropped. The next head of the page vouches for their entries too. */
const WAITING_PEERS_MAX = 64
/** A peer with more invalid heads is dropped. */
const INVALID_MAX = 16
/** Peers whose heads, replies and invalid heads are remembered. Above it, all are forgotten. */
const PEERS_MAX = 256
/** The most bytes of blocks that come with a head: the node of its entry, and a short content. More are ignored. */
const VOUCHED_BYTES_MAX = 8192

export interface HeadExchangeDeps {
  readonly clock: Clock
  readonly page: {
    readonly heads: readonly Head[]
    readonly isSplit: boolean
    /** Whether a head, which need not be verified, names an entry below the last that is known. It tells nothing new. */
    isOld(bytes: Bytes): boolean
    verify(bytes: Bytes): Promise<Head>
    /** The blocks that go with a head, so that no peer has to request them. */
    vouched(head: Head): Promise<readonly Bytes[]>
    /** Verifies the blocks that came with a verified head. Returns those that belong to its entry, if the head is the newest. */
    verifyVouched(head: Head, blocks: readonly Bytes[]): Promise<readonly Block[]>
    /** Takes a verified head, and verified blocks of its entry. */
    offer(head: Head, blocks: readonly Block[]): Offer
  }
  readonly peers: {
    ids(): readonly PeerId[]
    send(peer: PeerId, message: Bytes): void
    /** The peer sent what no honest peer sends. */
    drop(peer: PeerId): void
  }
}

/** Exchanges the heads of a live page with its peers, see docs/reference/protocols/live.md. */
export class HeadExchange {
  readonly #deps: HeadExchangeDeps
  /** The last heads of each peer that wait. So a peer that sends heads without end takes no place of another one. */
  readonly #waiting = new Map<PeerId, { heads: readonly Bytes[]; vouched: readonly Bytes[] }>()
  /** The highest number of a head that a peer has sent. It does not need that head again. */
  readonly #knownBy = new Map<PeerId, number>()
  readonly #repliedAt = new Map<PeerId, Millis>()
  readonly #invalidOf = new Map<PeerId, number>()
  /** Invalid heads, so that each is verified once. */
  readonly #invalid = new RecentSet<string>(PEERS_MAX)
  /** Heads that were answered with the two heads of the split. Two peers that know different ones would never stop. */
  readonly #answered = new RecentSet<string>(PEERS_MAX)
  /** Whether peers were told that the page is split. */
  #toldSplit = false
  #isVerifying = false
  #isStopped = false
  #stopTimer: (() => void) | null = null
  #sentAt = -Infinity

  constructor(deps: HeadExchangeDeps) {
    this.#deps = deps
  }

  /** A peer sent heads, and perhaps blocks of the newest entry. */
  receive(peer: PeerId, { heads, vouched }: HeadMessage): void {
    const { page } = this.#deps
    const fresh: Bytes[] = []
    for (const bytes of heads) {
      const known = page.heads.find((head) => isSameBytes(head.bytes, bytes))
      if (bytes.length !== HEAD_BYTES) this.#noteInvalid(peer)
      else if (known !== undefined) this.#noteKnown(peer, known)
      else if (page.isOld(bytes)) this.#reply(peer)
      // A copy, because the message can be much longer.
      else fresh.push(bytes.slice())
    }
    if (fresh.length === 0 || (this.#waiting.size >= WAITING_PEERS_MAX && !this.#waiting.has(peer))) return
    const hasBlocks = heads.length === 1 && vouched.reduce((sum, { length }) => sum + length, 0) <= VOUCHED_BYTES_MAX
    this.#waiting.set(peer, { heads: fresh, vouched: hasBlocks ? vouched.map((block) => block.slice()) : [] })
    void this.#verifyWaiting()
  }

  /** A peer is here. */
  greet(peer: PeerId): void {
    const { page, peers } = this.#deps
    if (page.heads.length > 0) peers.send(peer, messageOf(page.heads))
  }

  /** An entry has arrived. Its links may have shown that the page is split. */
  noteEntry(): void {
    if (this.#deps.page.isSplit && !this.#toldSplit) this.announce()
  }

  /** The heads have changed. All peers get them soon. */
  announce(): void {
    const { clock, page } = this.#deps
    if (this.#isStopped) return
    this.#toldSplit = page.isSplit
    this.#stopTimer ??= clock.after(Math.max(0, this.#sentAt + SEND_INTERVAL - clock.now()), () => {
      this.#stopTimer = null
      this.#sentAt = clock.now()
      void this.#sendToAll()
    })
  }

  /** Sends the heads to all peers, except to those that have sent the newest themselves. */
  async #sendToAll(): Promise<void> {
    const { page, peers } = this.#deps
    const { heads } = page
    const [newest] = heads
    if (newest === undefined) return
    const vouched = heads.length === 1 ? await orNone(page.vouched(newest)) : []
    if (this.#isStopped) return
    const message = messageOf(heads, vouched)
    for (const peer of peers.ids()) {
      if (heads.length > 1 || (this.#knownBy.get(peer) ?? 0) < newest.number) peers.send(peer, message)
    }
  }

  stop(): void {
    this.#isStopped = true
    this.#stopTimer?.()
    this.#waiting.clear()
  }

  /** Verifies the heads that wait, those of one peer after those of another. */
  async #verifyWaiting(): Promise<void> {
    if (this.#isVerifying) return
    this.#isVerifying = true
    try {
      // A peer that sends heads meanwhile comes at the end again.
      for (const [peer, { heads, vouched }] of this.#waiting) {
        this.#waiting.delete(peer)
        for (const bytes of heads) await this.#take(peer, bytes, vouched)
      }
    } finally {
      this.#isVerifying = false
    }
  }

  async #take(peer: PeerId, bytes: Bytes, vouched: readonly Bytes[]): Promise<void> {
    const name = bytes.join()
    const head = this.#invalid.has(name) ? 'invalid' : await this.#verified(bytes)
    if (this.#isStopped || head === 'unverified') return
    if (head === 'invalid') {
      this.#invalid.add(name)
      this.#noteInvalid(peer)
      return
    }
    const blocks = await orNone(this.#deps.page.verifyVouched(head, vouched))
    if (this.#isStopped) return
    const wasSplit = this.#deps.page.isSplit
    const offer = this.#deps.page.offer(head, blocks)
    this.#noteKnown(peer, head)
    if (offer === 'older') this.#reply(peer)
    else if (offer === 'newer' || (offer === 'split' && !wasSplit)) this.announce()
    else if (offer === 'split' && !this.#answered.has(name)) {
      this.#answered.add(name)
      this.#reply(peer)
    }
  }

  /** `unverified`: the code that verifies heads did not load. That is no fault of the peer, so the head is only dropped. */
  async #verified(bytes: Bytes): Promise<Head | 'invalid' | 'unverified'> {
    try {
      return await this.#deps.page.verify(bytes)
    } catch (error) {
      return error instanceof LiveError ? 'invalid' : 'unverified'
    }
  }

  #noteKnown(peer: PeerId, { number }: Head): void {
    if (this.#knownBy.size >= PEERS_MAX) this.#knownBy.clear()
    this.#knownBy.set(peer, Math.max(number, this.#knownBy.get(peer) ?? 0))
  }

  #noteInvalid(peer: PeerId): void {
    const invalid = (this.#invalidOf.get(peer) ?? 0) + 1
    if (this.#invalidOf.size >= PEERS_MAX) this.#invalidOf.clear()
    this.#invalidOf.set(peer, invalid)
    if (invalid > INVALID_MAX) this.#deps.peers.drop(peer)
  }

  #reply(peer: PeerId): void {
    const now = this.#deps.clock.now()
    if (now - (this.#repliedAt.get(peer) ?? -Infinity) < REPLY_INTERVAL) return
    if (this.#repliedAt.size >= PEERS_MAX) this.#repliedAt.clear()
    this.#repliedAt.set(peer, now)
    this.greet(peer)
  }
}

/** Blocks beside a head are a gain of time only: without them, as when this browser cannot hash, they are requested. */
function orNone<Each>(blocks: Promise<readonly Each[]>): Promise<readonly Each[]> {
  return blocks.catch(() => [])
}

function messageOf(heads: readonly Head[], vouched: readonly Bytes[] = []): Bytes {
  return encodeHeads(
    heads.map(({ bytes }) => bytes),
    vouched,
  )
}
