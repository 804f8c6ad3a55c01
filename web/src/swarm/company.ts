import { encodeMessage, type Input, type PeerId } from '../bitswap/index.ts'
import type { Reply } from '../channel/index.ts'
import type { Bytes } from '../content/index.ts'
import type { Clock, Millis, Reach } from './api.ts'
import { AssemblyBudget, type Assembled } from './assembler.ts'
import { Doorway, type LoadSwitchboard } from './doorway.ts'
import { Roster, type Member } from './roster.ts'
import { decodeRelayFrame, decodeSignalFrame, type Segment } from './segment.ts'
import { SignalBox } from './signal-box.ts'
import type { Introduction, StunServer } from './told.ts'

/** Bytes of unfinished messages of all peers together: at most, and no more than a small page can have use for. */
const ASSEMBLY_BYTES_MAX = 64 << 20
const ASSEMBLY_BYTES_BASE = 1 << 20
const ASSEMBLY_PAGES_MAX = 16
/**
 * Bytes that move between us and a peer before we call it: a direct path is worth it only for more. The one whose name
 * comes last calls first, lest both do.
 */
const CALLED_AFTER_BYTES = 128 << 10
const CALLED_AT_LAST_BYTES = 512 << 10
/** Between two words to the exchange that parts of a message arrive directly. */
const PROGRESS_INTERVAL: Millis = 100

/** Messages that may be between two of a peer's that are read one after the other. */
const OVERTAKEN_MAX = 2 ** 16

export interface CompanyDeps {
  readonly clock: Clock
  readonly random: () => number
  readonly pageBytesMax: number
  readonly frameBytesMax: number
  readonly push: (event: 'relay' | 'signal', frame: Bytes) => Promise<Reply>
  readonly stun: () => StunServer | null
  /** What makes direct paths; `null` for none. */
  readonly load: LoadSwitchboard | null
  /** Whether the page hears nothing any more: it has failed, or is closed. */
  readonly isOver: () => boolean
  /** The server named somebody, new or not. */
  readonly introduced: (member: Member, isNew: boolean) => void
  /** Settles when there is room for more blocks; `null` when that is now. */
  readonly room: () => Promise<void> | null
  /** What the exchange is to be told. */
  readonly tell: (input: Input) => void
  /** A peer sent what cannot be read. */
  readonly malformed: (peer: PeerId) => void
  /** A peer said what makes no sense about direct paths, or over them, and was sent away. */
  readonly sentAway: () => void
  /** A way changed. */
  readonly changed: () => void
}

/** Those who are on a page with us: how messages reach them, and how theirs reach us. */
export class Company {
  readonly roster: Roster
  readonly #deps: CompanyDeps
  /** Absent where there are no direct paths. */
  readonly #doorway: Doorway | null

  constructor(deps: CompanyDeps) {
    this.#deps = deps
    this.roster = new Roster(new AssemblyBudget(assemblyBytesMax(deps.pageBytesMax)), {
      push: (frame) => deps.push('relay', frame),
      clock: deps.clock,
      random: deps.random,
      frameBytesMax: deps.frameBytesMax,
    })
    this.#doorway = deps.load === null ? null : this.#makeDoorway(deps.load)
    if (this.#doorway !== null) globalThis.addEventListener?.('pagehide', this.#hangUp)
  }

  introduce({ peer, have, kind }: Introduction): Member | null {
    if (this.#deps.isOver()) return null
    const before = this.roster.get(peer)
    const member = before ?? this.roster.admit(peer, have, kind)
    if (before !== null) Object.assign(before, { have, kind })
    if (member === null) return null
    this.#deps.introduced(member, before === null)
    return member
  }

  /** A peer is not here any more. */
  part(peer: PeerId): void {
    const member = this.roster.remove(peer)
    if (member !== null) this.#dismiss(member)
  }

  partFromAll(): void {
    for (const member of this.roster.clear()) this.#dismiss(member)
  }

  /** A peer that is no good is not to come back. */
  ban(peer: PeerId): Member | null {
    const member = this.roster.ban(peer)
    if (member !== null) this.#dismiss(member)
    return member
  }

  /** Calls a peer with whom much is exchanged. */
  consider({ peer, kind }: Member): void {
    // A call that nobody can answer takes a line for as long as it may take to come up.
    if (kind === 'node') return
    const isFirst = (this.roster.self ?? '') > peer.id
    const enough = isFirst ? CALLED_AFTER_BYTES : CALLED_AT_LAST_BYTES
    if (peer.path === 'relay' && peer.movedBytes >= enough) this.#doorway?.call(peer.id)
  }

  /** How the direct way to a peer stands. */
  reach(peer: PeerId): Reach {
    const reach = this.#doorway?.reach(peer)
    if (this.roster.get(peer)?.kind === 'node' && reach?.kind !== 'up') {
      return { kind: 'none', why: 'node', failures: 0, again: null }
    }
    return reach ?? { kind: 'none', why: 'absent', failures: 0, again: null }
  }

  close(): void {
    for (const member of this.roster.clear()) member.peer.close()
    this.#doorway?.close()
    globalThis.removeEventListener?.('pagehide', this.#hangUp)
  }

  handleRelay(frame: ArrayBuffer): void {
    const relayed = decodeRelayFrame(frame)
    const member = relayed === null ? null : this.#meet(relayed.from)
    if (relayed === null || member === null) return
    const { from: peer, segment } = relayed
    const assembled = member.relayed.accept(this.#deps.clock.now(), segment)
    switch (assembled.kind) {
      case 'partial':
        this.#deps.tell({ kind: 'arriving', peer })
        return
      case 'malformed':
        this.#deps.malformed(peer)
        return
      case 'forgotten':
        return
      case 'complete':
        // It went directly first, and its sender does not know that it arrived.
        if (member.readDirect.has(segment.message)) return
        member.readRelayed.add(segment.message)
        this.#read(member, segment.message, assembled.message)
        return
    }
  }

  handleSignal(frame: ArrayBuffer): void {
    const said = decodeSignalFrame(frame)
    if (said === null || this.#doorway === null) return
    if (this.#meet(said.from) !== null) this.#doorway.hear(said.from, said.signal)
  }

  #handleSegment(peer: PeerId, segment: Segment): void {
    const member = this.#meet(peer)
    if (member === null || this.#deps.isOver()) return
    const now = this.#deps.clock.now()
    const assembled: Assembled = member.direct.accept(now, segment)
    switch (assembled.kind) {
      case 'partial':
        if (now - member.progressToldAt < PROGRESS_INTERVAL) return
        member.progressToldAt = now
        this.#deps.tell({ kind: 'arriving', peer })
        return
      case 'malformed':
        this.#deps.malformed(peer)
        return
      case 'forgotten':
        return
      case 'complete': {
        const id = segment.message
        if (member.readDirect.has(id) || member.readRelayed.has(id)) {
          member.peer.tellRead(id)
          return
        }
        this.#read(member, id, assembled.message, () => {
          member.readDirect.add(id)
          member.peer.tellRead(id)
        })
        return
      }
    }
  }

  /** Who says something first may know us from the server before we know them. */
  #meet(peer: PeerId): Member | null {
    return this.roster.get(peer) ?? this.introduce({ peer, have: 'none', kind: 'tab' })
  }

  #dismiss(member: Member): void {
    member.peer.close()
    this.#doorway?.forget(member.peer.id)
    this.#deps.tell({ kind: 'disconnected', peer: member.peer.id })
  }

  #read(member: Member, id: number, bytes: Bytes, whenRead = () => {}): void {
    member.peer.movedBytes += bytes.length
    this.consider(member)
    member.inbox.read(bytes, this.#deps.room, (received) => {
      if (!this.roster.isMember(member) || this.#deps.isOver()) return
      whenRead()
      const peer = member.peer.id
      if (hasBegunAnew(member.lastRead, id)) {
        // It lost us for a while, and with us what we had asked it for.
        this.#deps.tell({ kind: 'disconnected', peer })
        this.#deps.introduced(member, true)
      }
      member.lastRead = id
      if (received === null) this.#deps.malformed(peer)
      else this.#deps.tell({ kind: 'received', peer, ...received })
    })
  }

  /**
   * Says nothing to a peer whose direct way broke, only to hear of the server whether it is still there: of those who leave
   * it tells their neighbours alone, and we may wait for blocks of this one.
   */
  #ask(member: Member): void {
    member.peer.send(encodeMessage({ full: false, wants: [], presences: [], pendingBytes: 0 }, [])).catch(() => {
      if (this.roster.isMember(member)) this.part(member.peer.id)
    })
  }

  readonly #hangUp = () => this.#doorway?.hangUp()

  #makeDoorway(load: LoadSwitchboard): Doorway {
    const { clock, random } = this.#deps
    const box = new SignalBox((frame) => this.#deps.push('signal', frame), clock)
    return new Doorway(load, {
      clock,
      random,
      self: () => this.roster.self,
      stun: () => stunUrl(this.#deps.stun()),
      say: (to, signal) => box.say(to, signal),
      up: (peer, way) => {
        this.roster.get(peer)?.peer.goDirect(way)
        this.#deps.changed()
      },
      down: (peer) => {
        const member = this.roster.get(peer)
        member?.peer.goByRelay()
        if (member) this.#ask(member)
        this.#deps.changed()
      },
      // What came in part may still come whole while a way is only down.
      over: (peer) => this.roster.get(peer)?.direct.clear(),
      segment: (peer, segment) => this.#handleSegment(peer, segment),
      misbehaved: (peer) => this.#sendAway(peer),
    })
  }

  #sendAway(peer: PeerId): void {
    if (this.ban(peer) !== null) this.#deps.sentAway()
  }
}

/** Whether a message is not one of those around the last one, which overtake one another at times. */
function hasBegunAnew(last: number | null, id: number): boolean {
  if (last === null) return false
  const ahead = (id - last + 2 ** 32) % 2 ** 32
  return ahead >= OVERTAKEN_MAX && ahead <= 2 ** 32 - OVERTAKEN_MAX
}

function stunUrl(stun: StunServer | null): string | null {
  return stun === null ? null : `stun:${stun.host ?? globalThis.location?.hostname}:${stun.port}`
}

function assemblyBytesMax(pageBytesMax: number): number {
  return Math.min(ASSEMBLY_BYTES_MAX, ASSEMBLY_BYTES_BASE + ASSEMBLY_PAGES_MAX * pageBytesMax)
}
