import type { ReadonlySignal } from '@preact/signals'
import type { Connection as Channels } from '@watchfire/client/connection'
import type { Limit } from '@watchfire/pages/limits'
import type { LiveFeed, LiveSource, PageFile as OpenFile, PageSession as Swarm } from '@watchfire/pages/swarm'
import type { Counts, OwnCopy } from './sentences.ts'

export type { Limit, OpenFile }

/**
 * The interface between the views and the network. `main.tsx` connects it to the channels and the
 * swarm, tests to fakes.
 */
export interface Site {
  readonly connection: ReadonlySignal<Connection>
  /** Time of the next connection attempt, by `performance.now()`; `null` while there will be none. */
  readonly retryAt: ReadonlySignal<number | null>
  /** People on the site; `null` while the server does not report them. */
  readonly visitors: ReadonlySignal<number | null>
  /** The server's limits; `null` until they have loaded. */
  readonly limits: ReadonlySignal<Limits | null>
  /** The host and port below which pages have origins of their own; `null` when there are none. */
  readonly sitesBelow: ReadonlySignal<string | null>
  /** The address for reports of a page to the operator, with `{cid}` for the page; `null` when there is no address. */
  readonly report: ReadonlySignal<string | null>
  /** Whether the server has chat rooms; false until its limits have loaded. */
  readonly hasRooms: ReadonlySignal<boolean>
  /** Loads what `share` needs, so that it can start without delay. */
  prepare(): void
  /** Creates a page of these files and serves it from this tab. */
  share(files: readonly PageFile[], options: ShareOptions): Promise<PageSession>
  /** Opens a page. One of more than `bytesMax` bytes is rejected. `key` opens a private page. */
  open(cid: string, bytesMax?: number, key?: string | null): PageSession
  /** The tab's connection, for views that join topics of their own. */
  readonly channels: Promise<Channels>
}

/** A problem that does not end the page: the server does not introduce this tab to others, or a sentence. */
export type PageWarning = { kind: 'rejected'; reason: string } | { kind: 'problem'; sentence: string }

/** `refused`: the server does not accept this page's origin; there are no further attempts. */
export type Connection = 'connecting' | 'open' | 'lost' | 'refused'

export type Limits = ReadonlyMap<string, Limit>

/** A file for a new page: its path in the page, and its content. */
export interface PageFile {
  path: string
  blob: Blob
}

/** A larger page that is created here is shared from its files alone, without a copy that a reload finds. */
export const COPIED_BYTES_MAX = 20 << 20

export interface ShareOptions {
  signal: AbortSignal
  /** Called from time to time with the number of bytes hashed. */
  onProgress: (bytes: number) => void
  /** Paths of folders without anything in them. */
  emptyFolders?: readonly string[]
  /** Whether the page is a directory, even with a single file. */
  isDirectory?: boolean
  /** Makes the page private; `name` is stored inside it. */
  sealed?: { name: string | null }
  /** Makes a live page, without files but with these entries. */
  live?: { title: string; entries: readonly LiveSource[] }
}

/** One page that is open in this tab. */
export interface PageSession {
  readonly cid: string
  readonly state: ReadonlySignal<PageState>
  /** The part of the page that this tab can share. */
  readonly have: ReadonlySignal<OwnCopy>
  /** The key of a private page that is open; shown only as part of a link. */
  readonly key: ReadonlySignal<string | null>
  /** The name stored inside a private page. */
  readonly name: ReadonlySignal<string | null>
  /** The viewers and holders; `null` while the server does not report them, so that nobody can load it from here. */
  readonly counts: ReadonlySignal<Counts | null>
  /** The latest problem that did not end the page. */
  readonly warning: ReadonlySignal<PageWarning | null>
  /** Bytes sent to and received from other peers. */
  readonly traffic: ReadonlySignal<Traffic>
  /** When the page was last available, by `Date.now()`; `null` while it is, or when that is unknown. */
  readonly lastAvailable: ReadonlySignal<number | null>
  /** Whether a reload of the tab finds the page. */
  readonly survivesReload: boolean
  /** The swarm session, for the transfer panel; `null` until it has started. */
  readonly swarm: ReadonlySignal<Swarm | null>
  /** Loads that file, or its start, before the rest of the page. */
  prefetch?(path: string, whole: boolean, signal: AbortSignal): void
  /** Tries a key on a private page that is not open. */
  unlock(key: string): void
  close(): void
}

export interface Traffic {
  readonly receivedBytes: number
  readonly sentBytes: number
}

export type PageState =
  /** Waiting for the server's reply about who has it. */
  | { kind: 'joining' }
  /** The server rejected the page, or the link is not valid. */
  | { kind: 'refused'; reason: string }
  /** No present peer has all of it; the blocks received so far are kept. */
  | { kind: 'waiting'; bytes: number; total: number | null; content?: PageContent | undefined }
  /** Loading from that many peers: `direct` of them are connected directly, `nodes` of them are not tabs. */
  | {
      kind: 'loading'
      bytes: number
      total: number | null
      peers: number
      direct: number
      nodes: number
      /** Its files, once their names are known, before all content is here. */
      content?: PageContent | undefined
    }
  /** All of it is here and verified. */
  | { kind: 'held'; content: PageContent }
  /** Served to others but not readable here, for `reason` or for lack of a key. `coming`: progress while incomplete. */
  | { kind: 'locked'; reason: string | null; coming: Extract<PageState, { kind: 'loading' | 'waiting' }> | null }

export type PageContent =
  | ({ kind: 'file' } & Omit<DirectoryFile, 'path'>)
  /**
   * `links`: the symbolic links in it, which are not shown. `isPartial`: a block that states a size, or lists a folder in it,
   * is missing.
   */
  | { kind: 'directory'; files: readonly DirectoryFile[]; links: number; isPartial?: boolean }
  /** The files of an entry are below its number. */
  | { kind: 'live'; feed: LiveFeed; files: readonly DirectoryFile[] }

export interface DirectoryFile {
  /** Path in the page, such as `trip/cat.png`. */
  path: string
  size: number
  /** Whether `size` is only the estimate of its folder, because the block with the size is missing. The entry may be a folder itself. */
  isEstimate?: boolean
  /** When it was changed last, by `Date.now()`, if its blocks say so. */
  modified?: number
  /** Resolves with the whole file once it is here. */
  blob: () => Promise<Blob>
  /** Absent when the file can only be read whole. */
  streamed?: Streamed
}

/** A file that can be read before all of it is here. */
export interface Streamed {
  /** The CID of its page. */
  readonly cid: string
  /** Whether the whole page is here. */
  isWhole(): boolean
  /** Whether its parts are authenticated only when they are read, as in a private page from others. */
  readonly isSealed?: boolean
  open(options?: { signal?: AbortSignal }): Promise<OpenFile>
}
