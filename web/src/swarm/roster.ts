import type { Millis, PeerId } from '../exchange/index.ts'
import { Assembler, type Assembled, type AssemblyBudget } from './assembler.ts'
import type { Peer } from './peer.ts'
import { RelayPeer, type RelayPeerOptions } from './relay-peer.ts'
import { decodeRelayFrame } from './segment.ts'

/** Peers of one page that we talk to; one more is not let in until another leaves. */
const MEMBERS_MAX = 64
/** Peers remembered as no good; beyond it the one banned first may try again. */
const BANNED_MAX = 256

export interface Member {
  readonly peer: Peer
  readonly assembler: Assembler
  /** Messages of it that wait to be read. */
  inbox: number
  reading: Promise<void>
}

/** Who is here with us on a page, and who is not to come back. */
export class Roster {
  /** Our own name, which no other peer has. */
  self: PeerId | null = null
  readonly #budget: AssemblyBudget
  readonly #options: RelayPeerOptions
  readonly #members = new Map<PeerId, Member>()
  readonly #banned = new Set<PeerId>()

  constructor(budget: AssemblyBudget, options: RelayPeerOptions) {
    this.#budget = budget
    this.#options = options
  }

  /** The member of that name, new or old; `null` when it is banned, is us, or there is no room. */
  admit(id: PeerId): Member | null {
    const before = this.#members.get(id)
    if (before !== undefined) return before
    if (id === this.self || this.#banned.has(id) || this.#members.size >= MEMBERS_MAX) return null
    const member: Member = {
      peer: new RelayPeer(id, this.#options), assembler: new Assembler(this.#budget), inbox: 0, reading: Promise.resolve(),
    }
    this.#members.set(id, member)
    return member
  }

  get(id: PeerId): Member | null {
    return this.#members.get(id) ?? null
  }

  isMember(member: Member): boolean {
    return this.#members.get(member.peer.id) === member
  }

  remove(id: PeerId): Member | null {
    const member = this.#members.get(id) ?? null
    member?.assembler.clear()
    this.#members.delete(id)
    return member
  }

  ban(id: PeerId): Member | null {
    const [first] = this.#banned
    if (this.#banned.size >= BANNED_MAX && first !== undefined) this.#banned.delete(first)
    this.#banned.add(id)
    return this.remove(id)
  }

  /** Sends everyone away; returns who was here. */
  clear(): Member[] {
    return [...this.#members.keys()].flatMap((id) => this.remove(id) ?? [])
  }

  /** Takes a relay frame; `null` when it is none, or from nobody we let in. */
  accept(now: Millis, frame: ArrayBuffer): { from: PeerId; member: Member; assembled: Assembled } | null {
    const relayed = decodeRelayFrame(frame)
    const member = relayed === null ? null : this.admit(relayed.from)
    if (relayed === null || member === null) return null
    return { from: relayed.from, member, assembled: member.assembler.accept(now, relayed.segment) }
  }
}
