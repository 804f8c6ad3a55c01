import type { ReadonlySignal } from '@preact/signals'
import type { Connection as Channels } from '../channel/index.ts'
import type { PageFile as OpenFile, PageSession as Swarm } from '../swarm/index.ts'
import type { Counts } from './sentences.ts'

export type { OpenFile }

/**
 * What the pages need of the world behind them. `main.tsx` gives them the channels and the swarm,
 * tests and galleries a small pretence.
 */
export interface Site {
  readonly connection: ReadonlySignal<Connection>
  /** When the server is called next, by `performance.now()`; `null` while it is being called, or answers. */
  readonly retryAt: ReadonlySignal<number | null>
  /** Everyone on the site, `null` until the server has told. */
  readonly visitors: ReadonlySignal<number | null>
  /** The server's limits, `null` until it has told. */
  readonly limits: ReadonlySignal<Limits | null>
  /** The host and port below which pages have origins of their own, `null` where there are none. */
  readonly sitesBelow: ReadonlySignal<string | null>
  /** Where a page is reported to the operator, with `{cid}` for the page; `null` for nowhere. */
  readonly report: ReadonlySignal<string | null>
  /** Fetches what `kindle` needs, so that lighting does not wait for it. */
  prepare(): void
  /** Makes a page of these files and holds it in this tab. */
  kindle(files: readonly PageFile[], wish: KindleWish): Promise<PageSession>
  /** Looks for a page among those who have it open; one of more than `bytesMax` bytes is refused. `key` opens it when it is private. */
  open(cid: string, bytesMax?: number, key?: string | null): PageSession
  enterRoom(room: string): RoomSession
  /** The tab's socket, for a part of the application that joins topics of its own. */
  readonly channels: Promise<Channels>
}

/** What goes wrong while a page goes on: the server lets nobody find this tab, or a problem in a sentence. */
export type Trouble = { kind: 'unfound'; reason: string } | { kind: 'problem'; sentence: string }

export type Connection = 'connecting' | 'open' | 'lost'

export interface Limit {
  value: number
  unit: string
  /** A sentence: what happens at the limit. */
  whenReached: string
}

export type Limits = ReadonlyMap<string, Limit>

/** A file of a page to be: its path below the page, and what is in it. */
export interface PageFile {
  path: string
  blob: Blob
}

export interface KindleWish {
  signal: AbortSignal
  /** Called now and then with the bytes hashed so far. */
  onProgress: (bytes: number) => void
  /** Whether only who has the key may read it; then this is what it is called inside. */
  sealed?: { name: string | null }
}

/** One page, open in this tab. */
export interface PageSession {
  readonly cid: string
  readonly state: ReadonlySignal<PageState>
  /** What opens it, when it is private and open; never shown but in a link. */
  readonly key: ReadonlySignal<string | null>
  /** What a private page is called inside. */
  readonly name: ReadonlySignal<string | null>
  /** Who has it open, `null` until the server has told. */
  readonly counts: ReadonlySignal<Counts | null>
  /** The latest thing that went wrong without ending the page, in a sentence. */
  readonly trouble: ReadonlySignal<Trouble | null>
  /** What went to others and came from them. */
  readonly traffic: ReadonlySignal<Traffic>
  /** When somebody last had all of it, by `Date.now()`; `null` while somebody has, or where that is not known. */
  readonly lastLit: ReadonlySignal<number | null>
  /** What is behind it, for whoever looks closer; `null` until there is something. */
  readonly swarm: ReadonlySignal<Swarm | null>
  /** Fetches that file, or how it begins, before the rest of the page, as somebody is about to look at it. */
  expect?(path: string, whole: boolean, signal: AbortSignal): void
  /** Tries a key on a private page that is closed. */
  unlock(key: string): void
  close(): void
}

export interface Traffic {
  readonly receivedBytes: number
  readonly sentBytes: number
}

export type PageState =
  /** Waiting for the server's word on who has it. */
  | { kind: 'joining' }
  /** The server, or the link itself, says no. */
  | { kind: 'refused'; reason: string }
  /** Nobody here has all of it; what came so far is kept. */
  | { kind: 'waiting'; bytes: number; total: number | null; content?: PageContent | undefined }
  /** It comes from so many peers, `direct` of whom are reached past the server, and `nodes` of whom are no people. */
  | {
      kind: 'loading'
      bytes: number
      total: number | null
      peers: number
      direct: number
      nodes: number
      /** Its files, once the names and sizes of all are known, though they are not all here. */
      content?: PageContent | undefined
    }
  /** All of it is here and verified. */
  | { kind: 'held'; content: PageContent }
  /** It is held for others, and cannot be read: without a key, or for this reason. `coming`: while not all is here. */
  | { kind: 'locked'; reason: string | null; coming: Extract<PageState, { kind: 'loading' | 'waiting' }> | null }

export type PageContent =
  | ({ kind: 'file' } & Omit<DirectoryFile, 'path'>)
  | { kind: 'directory'; files: readonly DirectoryFile[] }

export interface DirectoryFile {
  /** Path below the page, such as `trip/cat.png`. */
  path: string
  size: number
  /** All of it, once it is here. */
  blob: () => Promise<Blob>
  /** Absent where it can be had only whole. */
  streamed?: Streamed
}

/** A file that can be read before all of it is here. */
export interface Streamed {
  /** The page that it is a file of. */
  readonly cid: string
  /** Whether all of the page is here. */
  isWhole(): boolean
  open(options?: { signal?: AbortSignal }): Promise<OpenFile>
}

export interface RoomSession {
  /** Messages since this tab came, oldest first; the oldest are dropped, see `ROOM_MESSAGES_MAX`. */
  readonly messages: ReadonlySignal<readonly RoomMessage[]>
  readonly state: ReadonlySignal<'joining' | 'joined' | { refused: string | null }>
  /** Rejects when there is no room to say it in. */
  say(user: string, body: string): Promise<Said>
  leave(): void
}

/** What became of something said: whether it was taken, or why not, in the words of the server. */
export type Said = 'ok' | 'timeout' | 'offline' | { refused: string | null }

export interface RoomMessage {
  user: string
  body: string
  /** When its sender says it was sent. */
  at: Date
}
