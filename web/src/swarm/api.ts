import type { Connection } from '../channel/index.ts'
import type { BlockStore, Bytes } from '../content/index.ts'
import type { Limits } from '../limits/index.ts'
import type { MakeBlocks } from '../storage/index.ts'
import type { LoadSwitchboard } from './doorway.ts'

/** A file to share. `path` is relative with forward slashes: `notes.md`, `trip/cat.png`. */
export interface Source {
  readonly path: string
  readonly blob: Blob
}

export interface PublishOptions {
  /** Largest content, in bytes; beyond it `publish` rejects with a `ContentError`. */
  readonly pageBytesMax?: number
  /** Whether to keep the names in a directory. Left out: only when there is more than one file, or a slash. */
  readonly directory?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: { bytesDone: number; bytesTotal: number }) => void
}

/** Content that this tab holds whole, ready for `openPage`. */
export interface Publication {
  /** The CID of the file or directory, as it stands in the link. */
  readonly root: string
  /** Bytes of all files together. */
  readonly size: number
  readonly blocks: number
  readonly store: BlockStore
}

export interface PageDeps {
  readonly connection: Connection
  readonly limits: Limits
  /** What `publish` gave, when this tab is the one that shares. */
  readonly publication?: Publication
  readonly clock?: Clock
  /** Numbers in [0, 1). */
  readonly random?: () => number
  /** What makes direct paths to peers; `null` for none. Left out: WebRTC, where the browser has it. */
  readonly direct?: LoadSwitchboard | null
  /** Where what is received is kept. Left out: on the browser's disk, in memory where it gives none. */
  readonly blocks?: MakeBlocks
  readonly signal?: AbortSignal
}

/** Milliseconds of a clock that only grows, or between two of its moments. */
export type Millis = number

/** Time as an argument: the browser's in the app, a pretend one in tests. */
export interface Clock {
  /** Milliseconds that only grow. */
  now(): number
  /** Calls once, after that many milliseconds; the returned function takes it back. */
  after(milliseconds: number, callback: () => void): () => void
}

/**
 * - `searching`: nothing has arrived yet, and somebody may have it.
 * - `loading`: blocks arrive.
 * - `complete`: every block is here and verified; this tab serves them to others.
 * - `dark`: nobody present has a full copy and nothing arrives; it lights again by itself.
 * - `failed`: this page can never be shown; `problem` says why.
 */
export type Phase = 'searching' | 'loading' | 'complete' | 'dark' | 'failed'

export type Have = 'all' | 'some' | 'none'

/** What a peer says it is: a tab of a browser, or a terminal or server, which has no WebRTC. */
export type PeerKind = 'tab' | 'node'

/** How this tab stands on the page's topic. */
export type Presence =
  | { kind: 'joining' }
  | { kind: 'joined' }
  | { kind: 'offline' }
  | { kind: 'refused'; reason: string }

export interface Counts {
  /** Tabs and nodes that have the page open, this one included. */
  watching: number
  /** Of them, those with a full copy. */
  holders: number
  /** Of them, those with a part. */
  partial: number
  /** How many of all these are nodes, which are nobody's tab. */
  nodes: { watching: number; holders: number; partial: number }
}

export interface Progress {
  blocksDone: number
  /** `null` until the whole tree of blocks is known. */
  blocksTotal: number | null
  bytesDone: number
  /** As the content itself declares; `null` until its root has arrived. */
  bytesTotal: number | null
}

/** Why there is no direct way to a peer, as far as this side can tell. */
export type Obstacle =
  /** This browser has no WebRTC. */
  | 'absent'
  /** The peer is a node, which has no WebRTC. */
  | 'node'
  /** Nothing was heard of the peer: it may have no WebRTC either. */
  | 'unanswered'
  /** Both told where they are, and neither got through to the other. */
  | 'unreachable'
  /** This browser tells nobody where it can be found. */
  | 'hidden-here'
  /** The peer's does not. */
  | 'hidden-there'
  /** There was one, and it broke. */
  | 'cut'
  /** One side has as many as a tab may have. */
  | 'busy'

/** How the direct way to a peer stands. */
export type Reach =
  /** Too little has moved yet to be worth one. */
  | { readonly kind: 'untried' }
  | { readonly kind: 'calling' }
  | { readonly kind: 'up' }
  /** It broke a moment ago, and may come back. */
  | { readonly kind: 'mending' }
  /** `again`: milliseconds until it may be tried again; `null` when it is not. */
  | { readonly kind: 'none'; readonly why: Obstacle; readonly failures: number; readonly again: number | null }

export interface PeerView {
  readonly id: string
  readonly kind: PeerKind
  readonly have: Have
  /** What carries messages to it now. */
  readonly path: 'relay' | 'direct'
  /** Why not directly, and whether it is tried. */
  readonly reach: Reach
  /** Blocks of the page that it is known to have; it may have more. `null` while nothing is known. */
  readonly blocks: number | null
  readonly receivedBytes: number
  readonly sentBytes: number
  /** What it delivered of late; 0 while unknown. */
  readonly bytesPerSecond?: number
}

/**
 * Where the blocks of a page are, in the order of the page, as far as they are known from its inner nodes. Both arrays
 * have one place for each block.
 */
export interface BlockMap {
  /** 1 for what is here and verified, else 0. */
  readonly here: Uint8Array
  /** How many of the peers we know have it, as far as they told; at most 255. */
  readonly elsewhere: Uint8Array
  readonly rarest: Rarest | null
}

/** Of the blocks that are present at all, those with the fewest copies, this tab's included. */
export interface Rarest {
  readonly copies: number
  readonly blocks: number
  /** Who has these copies: how many, and whether this tab is among them. */
  readonly holders: number
  readonly isOurs: boolean
  /** How many of the holders are nodes and no tabs. */
  readonly nodes: number
  /** How many of the copies of each block are in nodes; `null` when it differs from block to block. */
  readonly inNodes: number | null
}

/** What went wrong, in one sentence for people. `fatal` means the page cannot be shown. */
export interface PageProblem {
  readonly fatal: boolean
  readonly sentence: string
}

export interface PageState {
  readonly phase: Phase
  readonly presence: Presence
  readonly counts: Counts
  readonly progress: Progress
  readonly peers: readonly PeerView[]
  /** Bytes of verified blocks received from, and of blocks sent to, all peers since the page was opened. */
  readonly receivedBytes: number
  readonly sentBytes: number
  /** Peers sent away because they misbehaved, since the page was opened. */
  readonly peersDropped: number
  /** Milliseconds since somebody last had all of it, where the server keeps that and nobody has it now. */
  readonly lastLit: number | null
  /** The latest problems, newest last, at most eight. */
  readonly problems: readonly PageProblem[]
}

/** A file of the page. */
export interface Entry {
  /** Empty when the page is one nameless file. */
  readonly path: string
  /** In bytes; `null` until known. */
  readonly size: number | null
  /** Whether every block of it is here. */
  readonly complete: boolean
}

export interface ReadOptions {
  readonly signal?: AbortSignal
  /** Whether what is read, and what comes next, is fetched before the rest of the page. Left out: it is. */
  readonly urgent?: boolean
}

/** A file whose place and size are known; its blocks may still be on their way. */
export interface PageFile {
  /** In bytes. */
  readonly size: number
  /**
   * The bytes from `from` up to `to`, verified, as they come. It errors when the page fails or is closed, when the
   * content is no file after all, and when aborted.
   */
  read(from: number, to: number, options?: ReadOptions): ReadableStream<Bytes>
  /** Of so many equal parts, those whose first bytes are here. */
  present(parts: number): boolean[]
  /** Nobody is about to read it any more. Until its first `read` or this, its beginning is fetched first. */
  close(): void
}

/** An open page: loads it, serves it, tells how it stands. */
export interface PageSession {
  readonly root: string
  readonly state: PageState
  /** Calls back at once and on every change, until the returned function is called. */
  subscribe(listener: (state: PageState) => void): () => void
  /** The files known so far, in the order of the directory; `null` until the root has arrived. */
  entries(): readonly Entry[] | null
  /**
   * The bytes of a file, verified, once all are here. Rejects when the page fails or is closed, and with a
   * `ContentError` when there is no such file.
   */
  file(path: string, options?: { signal?: AbortSignal; type?: string }): Promise<Blob>
  /** Looks where the blocks are; `null` until the root has arrived. Takes time by the block: for a person who asks. */
  blockMap(): BlockMap | null
  /**
   * The file for reading before all of it is here, once its place and size are known; that much is fetched first.
   * Rejects as `file` does.
   */
  open(path: string, options?: { signal?: AbortSignal }): Promise<PageFile>
  /** Leaves the topic and forgets the blocks. */
  close(): void
}
