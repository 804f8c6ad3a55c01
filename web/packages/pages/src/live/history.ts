import { type Bytes, type Cid, type CidKey, isSameBytes } from '../content/index.ts'
import type { Beginning, Block } from './beginning.ts'
import { decodeEntry, encodeEntry, type Entry, type EarlierNode, linkedNumbers, linksOf } from './entry.ts'
import { LiveError } from './error.ts'
import { type Head, unverifiedEntry } from './head.ts'

/**
 * The effect of a head: it is the newest, and peers should get it; it is known; a newer one is known, and the sender should
 * get that; or the page is split, and peers should get the two heads that prove it.
 */
export type Offer = 'newer' | 'same' | 'older' | 'split'

/** Two different nodes have the same number: the key of the page was used in two places. */
export interface Split {
  /** The lowest number that is known to have two nodes. Entries below it are undisputed. */
  readonly number: number
  /** The head of the other branch. */
  readonly otherHead: Head
}

/** An entry that a publisher appends. */
export type NewEntry = Pick<Entry, 'timeMs' | 'form' | 'name' | 'content' | 'contentBytes'>

/** Signs that the entry with this node is the last. Nobody gets the entry before the promise resolves, and never if it rejects. */
export type SignEntry = (number: number, node: Block) => Promise<Head>

interface Node {
  readonly cid: Cid
  state: 'missing' | 'invalid' | Entry
}

/** Nodes that one head vouches for, by number. */
interface Branch {
  head: Head | null
  nodes: Map<number, Node>
  /** The number of entries that are here. */
  here: number
  /** The nodes that became known, and the entries that arrived, since `takeNews`. */
  fresh: { nodes: Cid[]; entries: Entry[] }
}

/**
 * The entries of a live page as one peer knows them, and the head that vouches for them. The Rust twin is
 * `crates/content/src/live/history.rs`.
 *
 * A history does no I/O. Its owner offers it verified heads from peers, fetches the blocks that are missing, and hands them
 * over with `insert`.
 */
export class History {
  readonly page: Cid
  readonly beginning: Beginning
  #branch: Branch = newBranch(null)
  /** Entries above the head, until a link to the head's entry proves that they continue it. */
  #next: Branch | null = null
  /** A head that is newer than that of `#next`. */
  #newest: Head | null = null
  #split: Split | null = null
  /** The other node with the number of the split, while its links may lead to a lower number. */
  #other: Cid | null = null

  constructor(page: Cid, beginning: Beginning) {
    this.page = page
    this.beginning = beginning
  }

  /** The number of the last entry that is known to continue the page; 0 if there is none. */
  get last(): number {
    return this.#branch.head?.number ?? 0
  }

  /** The head of that entry. */
  get head(): Head | null {
    return this.#branch.head
  }

  get split(): Split | null {
    return this.#split
  }

  /** The heads that peers should have: the newest, or the two that prove a split. */
  get heads(): Head[] {
    const newest = this.#newest ?? this.#next?.head ?? this.#branch.head
    const heads = this.#split === null ? [newest] : [this.#branch.head, this.#split.otherHead]
    return heads.filter((head) => head !== null)
  }

  /** The heads with which this history can begin again from its blocks, the oldest first: at most two. */
  get startingHeads(): Head[] {
    const { head } = this.#branch
    const others = this.heads.filter((each) => each !== head)
    return head === null ? others : [head, ...others]
  }

  /** The entries that are here, by number. */
  get entries(): Entry[] {
    const here = [...this.#branch.nodes.values()].flatMap(({ state }) => (typeof state === 'object' ? [state] : []))
    return here.sort((a, b) => a.number - b.number)
  }

  /** The CIDs of the nodes that are known and not here, those of the newest entries first. */
  get missing(): Cid[] {
    const missing = ({ nodes }: Branch) => {
      const sorted = [...nodes].filter(([, { state }]) => state === 'missing').sort(([a], [b]) => b - a)
      return sorted.map(([, { cid }]) => cid)
    }
    const next = this.#next === null ? [] : missing(this.#next)
    return [...next, ...missing(this.#branch), ...(this.#other === null ? [] : [this.#other])]
  }

  /** The CIDs of the nodes that are known to belong to the page, by number. */
  get nodes(): Cid[] {
    return [...this.#branch.nodes].sort(([a], [b]) => a - b).map(([, { cid }]) => cid)
  }

  /** The nodes that became known and the entries that arrived since the last call, perhaps some of them again. */
  takeNews(): { nodes: Cid[]; entries: Entry[] } {
    const { nodes, entries } = this.#branch.fresh
    const others = [...(this.#next?.fresh.nodes ?? []), ...(this.#other === null ? [] : [this.#other])]
    this.#branch.fresh = { nodes: [], entries: [] }
    if (this.#next !== null) this.#next.fresh.nodes = []
    return { nodes: [...nodes, ...others], entries }
  }

  /** The lowest number whose node is invalid, or `null`. The publisher's program has made it. */
  get invalid(): number | null {
    const invalid = [...this.#branch.nodes].filter(([, { state }]) => state === 'invalid').map(([number]) => number)
    return invalid.length === 0 ? null : Math.min(...invalid)
  }

  /** Whether all entries up to the newest head are here. */
  get isComplete(): boolean {
    return this.#next === null && this.#branch.here === this.last
  }

  /**
   * Whether a head names an entry below the last that is known under its number. Such a head tells nothing new, so it need not be
   * verified: a peer could repeat it without end.
   */
  isOld(bytes: Bytes): boolean {
    const head = unverifiedEntry(bytes, this.page)
    if (head === null || head.number >= this.last || this.#split !== null) return false
    const known = this.#branch.nodes.get(head.number)
    return known !== undefined && isSameBytes(known.cid.digest, head.digest)
  }

  /** Takes a verified head that a peer has sent. */
  offer(head: Head): Offer {
    const newest = this.heads[0]?.number ?? 0
    if (this.#split !== null) return this.heads.some(({ entry }) => entry.key === head.entry.key) ? 'same' : 'split'
    if (differs(this.#branch, { number: head.number, cid: head.entry })) {
      this.#splitAt({ number: head.number, cid: head.entry }, head)
      return 'split'
    }
    if (head.number < newest) return 'older'
    // If its entry is another one than that of the newest head, their links will differ.
    if (head.number === newest) return 'same'
    this.#follow(head)
    return 'newer'
  }

  /** Takes the block of a missing node. Returns whether it was missing. After an error it is not missing any more. */
  insert({ cid, bytes }: Block): boolean {
    if (this.#other?.key === cid.key) {
      this.#narrowSplit(decodedOrNull(bytes))
      return true
    }
    try {
      return this.#take(cid.key, decodeEntry(bytes))
    } catch (error) {
      if (!this.#forget(cid.key)) return false
      throw error
    }
  }

  /** Appends an entry as the publisher, who has all entries. Returns its block and the new head. */
  async append(sign: SignEntry, fresh: NewEntry): Promise<{ block: Block; head: Head }> {
    const number = this.last + 1
    const earlier = linkedNumbers(number).map((linked) => (linked === 0 ? this.page : this.#branch.nodes.get(linked)?.cid))
    if (!earlier.every((cid) => cid !== undefined)) throw new LiveError('Links')
    const entry: Entry = { ...fresh, number, earlier }
    const block = await encodeEntry(entry)
    const head = await sign(number, block)
    if (this.last !== number - 1) throw new LiveError('Number') // Two entries were appended at the same time.
    know(this.#branch, number, { cid: block.cid, state: 'missing' })
    arrive(this.#branch, entry)
    this.#branch.head = head
    return { block, head }
  }

  #take(key: CidKey, entry: Entry): boolean {
    const awaits = (branch: Branch | null) => {
      const node = branch?.nodes.get(entry.number)
      return node?.state === 'missing' && node.cid.key === key
    }
    if (awaits(this.#branch)) {
      this.#check(entry)
      insertInto(this.#branch, entry, 0)
    } else if (awaits(this.#next)) {
      this.#check(entry)
      this.#insertNext(entry)
    } else if (this.missing.some((missing) => missing.key === key)) {
      throw new LiveError('Number')
    } else {
      return false
    }
    return true
  }

  /** Begins to load the entries up to a newer head. */
  #follow(head: Head): void {
    if (isUnseen(this.#branch)) this.#branch = branchOf(head)
    else if (this.#next === null || isUnseen(this.#next)) this.#next = branchOf(head)
    else this.#newest = head
  }

  /** A link to node 0 must be to the beginning. */
  #check(entry: Entry): void {
    if (linksOf(entry).some(({ number, cid }) => number === 0 && cid.key !== this.page.key)) throw new LiveError('Links')
  }

  /** Takes an entry above the head. Its links may prove that its branch continues the page, or that the page is split. */
  #insertNext(entry: Entry): void {
    const next = this.#next
    if (next?.head === null || next === null) return
    const difference = lowestDifference(this.#branch, entry)
    if (difference !== null) {
      this.#splitAt(difference, next.head)
      return
    }
    const { last } = this
    insertInto(next, entry, last)
    if (linksOf(entry).every(({ number }) => number !== last)) return
    for (const [number, node] of next.nodes) this.#branch.nodes.set(number, node)
    this.#branch.head = next.head
    this.#branch.here += next.here
    this.#branch.fresh.nodes.push(...next.fresh.nodes)
    this.#branch.fresh.entries.push(...next.fresh.entries)
    this.#next = null
    this.#followNewest()
  }

  #followNewest(): void {
    const newest = this.#newest
    this.#newest = null
    if (newest !== null) this.#follow(newest)
  }

  #splitAt({ number, cid }: EarlierNode, otherHead: Head): void {
    this.#next = null
    this.#newest = null
    this.#split = { number, otherHead }
    this.#other = cid
  }

  /** The links of the other branch's node may lead to a lower number at which the branches differ. */
  #narrowSplit(other: Entry | null): void {
    const split = this.#split
    this.#other = null
    if (split === null || other?.number !== split.number) return
    const lower = lowestDifference(this.#branch, other)
    if (lower !== null) this.#splitAt(lower, split.otherHead)
  }

  /** Stops waiting for a node that is invalid. Returns whether it was awaited. */
  #forget(key: CidKey): boolean {
    for (const node of this.#branch.nodes.values()) {
      if (node.state === 'missing' && node.cid.key === key) {
        node.state = 'invalid'
        return true
      }
    }
    const next = [...(this.#next?.nodes.values() ?? [])]
    if (!next.some((node) => node.cid.key === key)) return false
    this.#next = null
    this.#followNewest()
    return true
  }
}

function newBranch(head: Head | null): Branch {
  return { head, nodes: new Map(), here: 0, fresh: { nodes: [], entries: [] } }
}

function branchOf(head: Head): Branch {
  const branch = newBranch(head)
  know(branch, head.number, { cid: head.entry, state: 'missing' })
  return branch
}

function know({ nodes, fresh }: Branch, number: number, node: Node): void {
  nodes.set(number, node)
  fresh.nodes.push(node.cid)
}

function isUnseen({ nodes }: Branch): boolean {
  return [...nodes.values()].every(({ state }) => typeof state === 'string')
}

/** Whether another node is known for this number. */
function differs({ nodes }: Branch, { number, cid }: EarlierNode): boolean {
  const node = nodes.get(number)
  return node !== undefined && node.cid.key !== cid.key
}

/** The lowest number that the entry links to and for which another node is known. */
function lowestDifference(branch: Branch, entry: Entry): EarlierNode | null {
  return linksOf(entry).findLast((link) => differs(branch, link)) ?? null
}

/** Takes an entry. The nodes that it links to become known, down to the number after `floor`. */
function insertInto(branch: Branch, entry: Entry, floor: number): void {
  const links = linksOf(entry).filter(({ number }) => number > floor)
  if (links.some((link) => differs(branch, link))) throw new LiveError('Links')
  for (const { number, cid } of links) if (!branch.nodes.has(number)) know(branch, number, { cid, state: 'missing' })
  arrive(branch, entry)
}

function arrive(branch: Branch, entry: Entry): void {
  const node = branch.nodes.get(entry.number)
  if (node === undefined) return
  node.state = entry
  branch.here++
  branch.fresh.entries.push(entry)
}

function decodedOrNull(bytes: Block['bytes']): Entry | null {
  try {
    return decodeEntry(bytes)
  } catch {
    return null
  }
}
