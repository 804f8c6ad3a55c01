import { BitswapError, decodeMessage, encodeMessage } from '../bitswap/index.ts'
import type { Topic } from '../channel/index.ts'
import {
  BLOCKS_MAX, BlockStore, cidOfBlock, ContentError, dagBytesMax, DagWalk, DEPTH_MAX, isFileComplete, listFiles, RAW,
  readFile, type Bytes, type Cid, type CidKey, type FileEntry, type WantedBlock,
} from '../content/index.ts'
import {
  defaultExchangeSettings, Exchange, type DropReason, type Have, type Input, type Output, type PeerId,
} from '../exchange/index.ts'
import type { Limits } from '../limits/index.ts'
import type { Clock, Counts, Entry, PageDeps, PageProblem, PageSession, PageState, Phase, Presence } from './api.ts'
import { AssemblyBudget } from './assembler.ts'
import { browserClock } from './clock.ts'
import { Doorway, type LoadSwitchboard } from './doorway.ts'
import { Roster, type Member } from './roster.ts'
import { decodeSignalFrame, type Segment } from './segment.ts'
import { SignalBox } from './signal-box.ts'
import { readCounts, readIntroduction, readIntroductions, readReason, readWelcome, type Introduction, type StunServer } from './told.ts'

const EVENTS = ['relay', 'signal', 'peer_joined', 'peer_left', 'counts', 'lit', 'dark']
/** Bytes of unfinished messages of all peers together: at most, and no more than a small page can have use for. */
const ASSEMBLY_BYTES_MAX = 64 << 20
const ASSEMBLY_BYTES_BASE = 1 << 20
const ASSEMBLY_PAGES_MAX = 16
/** Messages of one peer that wait to be hashed; one more is dropped, and what it answered is asked again. */
const INBOX_MAX = 16
/** How often a page that gets nothing from anybody asks for other peers. */
const MORE_PEERS_INTERVAL = 5000
/** Between two reports of anything that changes with every block. */
const REPORT_INTERVAL = 100
const PROBLEMS_MAX = 8
/**
 * Bytes that move between us and a peer before we call it: a direct path is worth it only for more. The one whose name
 * comes last calls first, lest both do.
 */
const CALLED_AFTER_BYTES = 128 << 10
const CALLED_AT_LAST_BYTES = 512 << 10
/** Between two words to the exchange that parts of a message arrive directly. */
const PROGRESS_INTERVAL = 100

interface Awaited {
  readonly path: string
  readonly type: string
  readonly resolve: (file: Blob) => void
  readonly reject: (error: unknown) => void
}

/** An open page: carries between its exchange, its blocks, its peers and the server. */
export class Session implements PageSession {
  readonly root: string
  readonly #rootCid: Cid
  readonly #clock: Clock
  readonly #random: () => number
  readonly #limits: Limits
  readonly #exchange: Exchange
  readonly #walk: DagWalk
  readonly #store: BlockStore
  readonly #ownsStore: boolean
  readonly #roster: Roster
  readonly #topic: Topic
  /** Absent where there are no direct paths. */
  readonly #doorway: Doorway | null
  readonly #listeners = new Set<(state: PageState) => void>()
  readonly #awaited = new Set<Awaited>()
  readonly #wholeFiles = new Set<CidKey>()
  readonly #inputs: Input[] = []
  #isHandling = false
  #presence: Presence = { kind: 'joining' }
  #counts: Counts = { watching: 0, holders: 0, partial: 0 }
  /** Whether somebody has a full copy; `null` until the server has told. */
  #isLit: boolean | null = null
  #announced: Have = 'none'
  #problems: readonly PageProblem[] = []
  #received = 0
  #sent = 0
  #peersDropped = 0
  #stun: StunServer | null = null
  #failure: Error | null = null
  #isClosed = false
  #reported: { phase: Phase; presence: Presence } = { phase: 'searching', presence: this.#presence }
  #listed: { blocksDone: number; files: FileEntry[] | null } = { blocksDone: -1, files: null }
  #stopTick: (() => void) | null = null
  #tickAt = Infinity
  #stopAsking: (() => void) | null = null
  #stopReport: (() => void) | null = null

  constructor(root: Cid, deps: PageDeps) {
    this.root = root.text
    this.#rootCid = root
    this.#clock = deps.clock ?? browserClock
    this.#random = deps.random ?? Math.random
    this.#limits = deps.limits
    const { pageBytesMax, blocksInFlightMax } = deps.limits
    this.#exchange = new Exchange(this.#random(), { ...defaultExchangeSettings, blocksInFlightMax })
    this.#walk = new DagWalk(root, { bytesMax: pageBytesMax, blocksMax: BLOCKS_MAX, depthMax: DEPTH_MAX })
    this.#store = deps.publication?.store ?? new BlockStore(dagBytesMax(pageBytesMax))
    this.#ownsStore = deps.publication === undefined
    this.#roster = new Roster(new AssemblyBudget(assemblyBytesMax(pageBytesMax)), {
      push: (frame) => this.#topic.push('relay', frame),
      clock: this.#clock,
      frameBytesMax: this.#limits.relayFrameBytesMax,
    })
    this.#doorway = this.#makeDoorway(deps.direct === undefined ? browserDirect : deps.direct)
    this.#attempt(() => this.#take(this.#walk.start()))
    this.#announced = this.#have()
    this.#topic = deps.connection.join(`page:${root.key}`, EVENTS, {
      params: () => ({ have: (this.#announced = this.#have()) }),
      joined: (response) => this.#handleJoined(response),
      refused: (response) => this.#handleRefused(response),
      lost: () => this.#handleLost(),
      message: (event, payload) => this.#handleEvent(event, payload),
    })
    this.#handleInputs()
    if (this.#doorway !== null) globalThis.addEventListener?.('pagehide', this.#hangUp)
    deps.signal?.addEventListener('abort', () => this.close(), { once: true })
    if (deps.signal?.aborted) this.close()
  }

  // What the page tells.

  get state(): PageState {
    const peers = this.#exchange.peers().map((peer) => ({ ...peer, path: this.#roster.get(peer.id)?.peer.path ?? 'relay' }))
    return {
      phase: this.#phase(),
      presence: this.#presence,
      counts: this.#counts,
      progress: this.#walk.progress,
      peers,
      receivedBytes: this.#received,
      sentBytes: this.#sent,
      peersDropped: this.#peersDropped,
      problems: this.#problems,
    }
  }

  subscribe(listener: (state: PageState) => void): () => void {
    this.#listeners.add(listener)
    listener(this.state)
    return () => this.#listeners.delete(listener)
  }

  entries(): readonly Entry[] | null {
    const files = this.#files()
    return (
      files?.map(({ path, size, cid }) => ({ path, size, complete: isFileComplete(this.#store, cid, this.#wholeFiles) })) ??
      null
    )
  }

  file(path: string, options: { signal?: AbortSignal; type?: string } = {}): Promise<Blob> {
    const { signal, type = '' } = options
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const awaited: Awaited = { path, type, resolve, reject }
      this.#awaited.add(awaited)
      signal?.addEventListener('abort', () => {
        if (this.#awaited.delete(awaited)) reject(signal.reason)
      })
      this.#giveOut()
    })
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stopTick?.()
    this.#stopAsking?.()
    this.#stopReport?.()
    this.#topic.leave()
    for (const member of this.#roster.clear()) member.peer.close()
    this.#doorway?.close()
    globalThis.removeEventListener?.('pagehide', this.#hangUp)
    this.#giveOut()
    this.#listeners.clear()
    if (this.#ownsStore) this.#store.clear()
  }

  #phase(): Phase {
    if (this.#failure !== null) return 'failed'
    if (this.#walk.isComplete) return 'complete'
    const hasSome = this.#walk.progress.blocksDone > 0
    if (this.#exchange.blocksInFlight === 0 && this.#isLit === false) return 'dark'
    return hasSome ? 'loading' : 'searching'
  }

  #have(): Have {
    if (this.#walk.isComplete) return 'all'
    return this.#walk.progress.blocksDone > 0 ? 'some' : 'none'
  }

  #files(): FileEntry[] | null {
    const { blocksDone } = this.#walk.progress
    if (blocksDone !== this.#listed.blocksDone && this.#failure === null && !this.#isClosed) {
      this.#attempt(() => {
        this.#listed = { blocksDone, files: blocksDone === 0 ? null : listFiles(this.#store, this.#rootCid) }
      })
    }
    return this.#listed.files
  }

  /** Settles every promised file that can be settled now. */
  #giveOut(): void {
    if (this.#awaited.size === 0) return
    const files = this.#files()
    for (const awaited of this.#awaited) {
      const { path, type, resolve, reject } = awaited
      const file = files?.find((each) => each.path === path)
      if (this.#failure !== null) reject(this.#failure)
      else if (this.#isClosed) reject(new DOMException('The page was closed.', 'AbortError'))
      else if (file !== undefined && isFileComplete(this.#store, file.cid, this.#wholeFiles)) {
        try {
          resolve(readFile(this.#store, file.cid, type))
        } catch (error) {
          reject(error)
        }
      } else if (this.#walk.isComplete) reject(new ContentError({ kind: 'no-such-file', path }))
      else continue
      this.#awaited.delete(awaited)
    }
  }

  /** Tells the listeners: at once when the page's standing changed, otherwise soon. */
  #report(): void {
    if (this.#isClosed) return
    const phase = this.#phase()
    if (phase !== this.#reported.phase || this.#presence !== this.#reported.presence) {
      this.#reportNow()
      return
    }
    this.#stopReport ??= this.#clock.after(REPORT_INTERVAL, () => this.#reportNow())
  }

  #reportNow(): void {
    this.#stopReport?.()
    this.#stopReport = null
    this.#giveOut()
    const { state } = this
    this.#reported = { phase: state.phase, presence: state.presence }
    for (const listener of this.#listeners) listener(state)
  }

  #note(problem: PageProblem): void {
    this.#problems = [...this.#problems, problem].slice(-PROBLEMS_MAX)
    this.#report()
  }

  /** Does what malformed content may break; then the page has failed for good. */
  #attempt(step: () => void): void {
    try {
      step()
    } catch (error) {
      if (!(error instanceof ContentError)) throw error
      this.#fail(error)
    }
  }

  #fail(error: ContentError): void {
    if (this.#failure !== null) return
    this.#failure = error
    for (const member of this.#roster.clear()) this.#dismiss(member)
    this.#note({ fatal: true, sentence: error.message })
  }

  // What the server says.

  #handleJoined(response: unknown): void {
    const { peers, counts, self, stun } = readWelcome(response)
    this.#roster.self = self
    this.#stun = stun
    this.#presence = { kind: 'joined' }
    this.#learnCounts(counts)
    // After a rejoin everybody has new names.
    for (const member of this.#roster.clear()) this.#dismiss(member)
    for (const peer of peers) this.#introduce(peer)
    this.#announce()
    this.#scheduleAsking()
    this.#report()
  }

  #handleRefused(response: unknown): void {
    const reason = readReason(response)
    this.#presence = { kind: 'refused', reason }
    if (reason === 'not a CID') this.#topic.leave()
    this.#report()
  }

  #handleLost(): void {
    this.#presence = { kind: 'offline' }
    for (const member of this.#roster.clear()) this.#dismiss(member)
    this.#report()
  }

  #handleEvent(event: string, payload: unknown): void {
    if (this.#isClosed || this.#failure !== null) return
    switch (event) {
      case 'relay':
        if (payload instanceof ArrayBuffer) this.#handleRelay(payload)
        break
      case 'signal':
        if (payload instanceof ArrayBuffer) this.#handleSignal(payload)
        break
      case 'peer_joined': {
        const introduction = readIntroduction(payload)
        if (introduction !== null) this.#introduce(introduction)
        break
      }
      case 'peer_left': {
        const left = readIntroduction(payload)
        const member = left === null ? null : this.#roster.remove(left.peer)
        if (member !== null) this.#dismiss(member)
        break
      }
      case 'counts':
        this.#learnCounts(readCounts(payload))
        break
      case 'lit':
        this.#isLit = true
        // Not everyone at once: the one who lit it has a life of its own.
        if (!this.#walk.isComplete) this.#clock.after(this.#random() * 1000, () => this.#askForPeers())
        break
      case 'dark':
        this.#isLit = false
        break
    }
    this.#report()
  }

  #learnCounts(counts: Counts | null): void {
    if (counts === null) return
    this.#counts = counts
    this.#isLit = counts.holders > 0
  }

  /** Says how much of the page is here, when that has changed. */
  #announce(): void {
    const have = this.#have()
    if (have === this.#announced || !this.#topic.isJoined()) return
    this.#announced = have
    void this.#topic.push('have', { have })
  }

  #scheduleAsking(): void {
    this.#stopAsking?.()
    this.#stopAsking = this.#clock.after(MORE_PEERS_INTERVAL, () => {
      if (this.#walk.isComplete || this.#failure !== null) return
      if (this.#exchange.blocksInFlight === 0) this.#askForPeers()
      this.#scheduleAsking()
    })
  }

  async #askForPeers(): Promise<void> {
    if (this.#isClosed || this.#walk.isComplete || !this.#topic.isJoined()) return
    const reply = await this.#topic.push('more_peers', {})
    if (reply.status !== 'ok' || this.#isClosed) return
    for (const peer of readIntroductions(reply.response)) this.#introduce(peer)
  }

  // Peers.

  #introduce({ peer, have }: Introduction): Member | null {
    if (this.#failure !== null || this.#isClosed) return null
    const member = this.#roster.admit(peer)
    if (member !== null) this.#tell({ kind: 'joined', peer, have })
    return member
  }

  #dismiss(member: Member): void {
    member.peer.close()
    this.#doorway?.forget(member.peer.id)
    this.#tell({ kind: 'left', peer: member.peer.id })
  }

  /** Who says something first may know us from the server before we know them. */
  #meet(peer: PeerId): Member | null {
    return this.#exchange.has(peer) ? this.#roster.get(peer) : this.#introduce({ peer, have: 'none' })
  }

  #handleRelay(frame: ArrayBuffer): void {
    const arrived = this.#roster.accept(this.#clock.now(), frame)
    if (arrived === null) return
    const { assembled, segment } = arrived
    const peer = arrived.member.peer.id
    const member = this.#meet(peer)
    if (member === null) return
    switch (assembled.kind) {
      case 'partial':
        this.#tell({ kind: 'progress', peer })
        return
      case 'malformed':
        this.#tell({ kind: 'malformed', peer })
        return
      case 'forgotten':
        return
      case 'complete':
        // It went directly first, and its sender does not know that it arrived.
        if (member.readDirect.has(segment.message)) return
        member.readRelayed.add(segment.message)
        this.#noteMoved(member, assembled.message.length)
        this.#read(member, assembled.message)
        return
    }
  }

  // Direct paths.

  readonly #hangUp = () => this.#doorway?.hangUp()

  #makeDoorway(load: LoadSwitchboard | null): Doorway | null {
    if (load === null) return null
    const box = new SignalBox((frame) => this.#topic.push('signal', frame), this.#clock)
    return new Doorway(load, {
      clock: this.#clock,
      random: this.#random,
      self: () => this.#roster.self,
      stun: () => this.#stunUrl(),
      say: (to, signal) => box.say(to, signal),
      up: (peer, way) => {
        this.#roster.get(peer)?.peer.goDirect(way)
        this.#report()
      },
      down: (peer) => {
        const member = this.#roster.get(peer)
        // What came in part will come whole by relay.
        member?.direct.clear()
        member?.peer.goByRelay()
        this.#report()
      },
      segment: (peer, segment) => this.#handleSegment(peer, segment),
      misbehaved: (peer) => this.#sendAway(peer),
    })
  }

  #stunUrl(): string | null {
    if (this.#stun === null) return null
    return `stun:${this.#stun.host ?? globalThis.location?.hostname}:${this.#stun.port}`
  }

  #handleSignal(frame: ArrayBuffer): void {
    const said = decodeSignalFrame(frame)
    if (said === null || this.#doorway === null) return
    if (this.#meet(said.from) !== null) this.#doorway.hear(said.from, said.signal)
  }

  #handleSegment(peer: PeerId, segment: Segment): void {
    const member = this.#meet(peer)
    if (member === null || this.#isClosed || this.#failure !== null) return
    const now = this.#clock.now()
    const assembled = member.direct.accept(now, segment)
    switch (assembled.kind) {
      case 'partial':
        if (now - member.progressToldAt < PROGRESS_INTERVAL) return
        member.progressToldAt = now
        this.#tell({ kind: 'progress', peer })
        return
      case 'malformed':
        this.#tell({ kind: 'malformed', peer })
        return
      case 'forgotten':
        return
      case 'complete': {
        const id = segment.message
        if (member.readDirect.has(id) || member.readRelayed.has(id)) {
          member.peer.tellRead(id)
          return
        }
        this.#noteMoved(member, assembled.message.length)
        this.#read(member, assembled.message, () => {
          member.readDirect.add(id)
          member.peer.tellRead(id)
        })
        return
      }
    }
  }

  #noteMoved(member: Member, bytes: number): void {
    member.peer.movedBytes += bytes
    this.#consider(member)
  }

  /** Calls a peer with whom much is exchanged. */
  #consider({ peer }: Member): void {
    const isFirst = (this.#roster.self ?? '') > peer.id
    const enough = isFirst ? CALLED_AFTER_BYTES : CALLED_AT_LAST_BYTES
    if (peer.path === 'relay' && peer.movedBytes >= enough) this.#doorway?.call(peer.id)
  }

  /** A peer that says what makes no sense about direct paths, or over them. */
  #sendAway(peer: PeerId): void {
    const member = this.#roster.ban(peer)
    if (member === null) return
    this.#dismiss(member)
    this.#peersDropped++
    this.#note({ fatal: false, sentence: 'A peer tried to reach this tab in a way that makes no sense, and is not listened to any more.' })
  }

  /** Reads a peer's messages one after the other, though hashing takes its time. */
  #read(member: Member, bytes: Bytes, whenRead = () => {}): void {
    if (member.inbox >= INBOX_MAX) return
    member.inbox++
    member.reading = member.reading.then(async () => {
      const input = await readMessage(member.peer.id, bytes)
      member.inbox--
      if (!this.#roster.isMember(member) || this.#isClosed || this.#failure !== null) return
      whenRead()
      this.#tell(input)
    })
  }

  // The exchange.

  #tell(input: Input): void {
    this.#inputs.push(input)
    this.#handleInputs()
  }

  /** Handles inputs in order; what carrying out an output brings up comes after all before it. */
  #handleInputs(): void {
    // The first are told before there is a topic to speak on.
    if (this.#isHandling || this.#topic === undefined) return
    this.#isHandling = true
    for (let input = this.#inputs.shift(); input !== undefined; input = this.#inputs.shift()) {
      for (const output of this.#exchange.handle(this.#clock.now(), input)) this.#carryOut(output)
    }
    this.#isHandling = false
    this.#scheduleTick()
    this.#report()
  }

  #scheduleTick(): void {
    const wake = this.#isClosed ? null : this.#exchange.nextWake()
    // A tick that comes too early does no harm, so a later wish waits for it.
    if (wake === null || wake >= this.#tickAt) return
    this.#stopTick?.()
    this.#tickAt = wake
    this.#stopTick = this.#clock.after(Math.max(0, wake - this.#clock.now()), () => {
      this.#tickAt = Infinity
      this.#tell({ kind: 'tick' })
    })
  }

  #carryOut(output: Output): void {
    if (this.#isClosed || this.#failure !== null) return
    switch (output.kind) {
      case 'send':
        void this.#send(output)
        return
      case 'arrived':
        this.#received += output.bytes.length
        this.#attempt(() => this.#keep(output.cid, output.bytes))
        this.#announce()
        return
      case 'drop':
        this.#drop(output.peer, output.reason)
        return
    }
  }

  async #send({ peer, lane, message, blocks }: Output & { kind: 'send' }): Promise<void> {
    const member = this.#roster.get(peer)
    if (member === null) return
    const carried: { cid: Cid; data: Bytes }[] = []
    for (const cid of blocks) {
      try {
        carried.push({ cid, data: await this.#store.read(cid) })
      } catch {
        if (!this.#isClosed) this.#note({ fatal: false, sentence: 'A shared file has changed or gone since it was shared.' })
        this.#tell({ kind: 'lost', peer, cid })
      }
    }
    try {
      const isEmpty = carried.length + message.wants.length + message.presences.length === 0
      if (!isEmpty) await member.peer.send(encodeMessage(message, carried))
      this.#sent += carried.reduce((sum, { data }) => sum + data.length, 0)
      if (this.#roster.isMember(member)) {
        this.#consider(member)
        this.#tell({ kind: 'sent', peer, lane })
      }
    } catch {
      if (this.#roster.isMember(member)) {
        this.#roster.remove(peer)
        this.#dismiss(member)
      }
    }
  }

  #drop(peer: PeerId, reason: DropReason): void {
    this.#roster.ban(peer)?.peer.close()
    this.#doorway?.forget(peer)
    this.#peersDropped++
    this.#note({ fatal: false, sentence: DROPPED[reason] })
  }

  // Blocks.

  /** Keeps a verified block. Leaves become blobs, which the browser may put on disk. */
  #keep(cid: Cid, bytes: Bytes): void {
    if (cid.codec === RAW) this.#store.put(cid, new Blob([bytes]))
    // A small view would keep the whole message it came in.
    else this.#store.put(cid, bytes.byteLength * 2 > bytes.buffer.byteLength ? bytes : bytes.slice())
    this.#take(this.#walk.arrived(cid, bytes.length, bytes))
  }

  /** Wants what is missing; walks on through what is here already. */
  #take(wanted: WantedBlock[]): void {
    const missing: WantedBlock[] = []
    for (let next = wanted.pop(); next !== undefined; next = wanted.pop()) {
      const block = this.#store.get(next.cid)
      const size = this.#store.size(next.cid)
      if (block === null || size === null) {
        missing.push(next)
        continue
      }
      this.#inputs.push({ kind: 'held', cid: next.cid, size })
      wanted.push(...this.#walk.arrived(next.cid, size, block instanceof Uint8Array ? block : null))
    }
    if (missing.length > 0) this.#inputs.push({ kind: 'want', blocks: missing.reverse() })
  }
}

/** WebRTC, where there is any. */
const browserDirect: LoadSwitchboard | null =
  typeof RTCPeerConnection === 'function'
    ? () => import('./direct/index.ts').then(({ browserSwitchboards }) => browserSwitchboards)
    : null

function assemblyBytesMax(pageBytesMax: number): number {
  return Math.min(ASSEMBLY_BYTES_MAX, ASSEMBLY_BYTES_BASE + ASSEMBLY_PAGES_MAX * pageBytesMax)
}

const DROPPED: Record<DropReason, string> = {
  lied: 'A peer sent wrong bytes. They were thrown away, and the peer is not asked again.',
  malformed: 'A peer sent what cannot be read, and is not listened to any more.',
  flooded: 'A peer kept sending what nobody asked for, and is not listened to any more.',
}

async function readMessage(peer: PeerId, bytes: Bytes): Promise<Input> {
  try {
    const decoded = decodeMessage(bytes)
    const blocks: { cid: Cid; bytes: Bytes }[] = []
    let uncheckable = 0
    for (const { prefix, data } of decoded.blocks) {
      try {
        blocks.push({ cid: await cidOfBlock(prefix, data), bytes: data })
      } catch (error) {
        if (!(error instanceof ContentError)) throw error
        uncheckable++
      }
    }
    return { kind: 'message', peer, message: decoded, blocks, uncheckable }
  } catch (error) {
    if (error instanceof BitswapError) return { kind: 'malformed', peer }
    throw error
  }
}
