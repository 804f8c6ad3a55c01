import type { Signal } from '@preact/signals'
import type { ReadablePage, Privacy } from '@watchfire/pages/encryption'
import type { Have, Listing, LiveFeed, PageSession as Swarm, PageState as SwarmState } from '@watchfire/pages/swarm'
import { swarm as text } from '@watchfire/pages/problems'
import { followCrowd } from '../crowd/crowds.ts'
import type { Counts, HolderCounts } from '../ui/sentences.ts'
import type { DirectoryFile, PageContent, PageState, Streamed, Traffic, PageWarning } from '../ui/site.ts'

/** The signals of a page, updated by `follow`. */
export interface PageSignals {
  readonly state: Signal<PageState>
  readonly have: Signal<Have>
  readonly counts: Signal<Counts | null>
  readonly key: Signal<string | null>
  readonly name: Signal<string | null>
  readonly warning: Signal<PageWarning | null>
  readonly traffic: Signal<Traffic>
  readonly lastAvailable: Signal<number | null>
  /** The key that was tried last. */
  readonly lastKeyTried: string | null
}

/** Updates the signals of a page until the returned function is called. */
export function follow(page: ReadablePage, signals: PageSignals): () => void {
  const { state, have, counts, key, name, warning, traffic, lastAvailable } = signals
  const content = new ContentCache()
  const leave = followCrowd(page, signals)
  const stop = page.subscribe((now) => {
    // A complete page keeps the same object, so that it is not rendered again.
    if (page.privacy.kind === 'closed') state.value = lockOf(page.privacy, pageState(now, page), state.peek())
    else if (state.peek().kind !== 'held') state.value = pageState(now, page, content)
    else if (page.live() !== null) state.value = grown(state.peek(), content.all(page))
    if (page.privacy.kind === 'open') {
      key.value = signals.lastKeyTried
      name.value = page.privacy.content.index.name || null
    }
    have.value = now.have
    warning.value = warningOf(now)
    traffic.value = trafficOf(now, traffic.peek())
    lastAvailable.value = dateOf(now.sinceAvailable, lastAvailable.peek())
    // Without the topic, this tab shares the page with nobody and knows of nobody.
    counts.value = now.presence.kind === 'joined' ? countsOf(now, counts.peek()) : null
  })
  return () => {
    stop()
    leave()
  }
}

/** The state of a private page that is not open; an unchanged state stays the same object. */
function lockOf(seal: Extract<Privacy, { kind: 'closed' }>, state: PageState, before: PageState): PageState {
  if (state.kind === 'refused') return state
  const reason = seal.problem?.message ?? null
  const coming = state.kind === 'loading' || state.kind === 'waiting' ? state : null
  const same = before.kind === 'locked' && before.reason === reason && before.coming === coming
  return same ? before : { kind: 'locked', reason, coming }
}

/** A live page that grows stays held. The parts that are missing are shown when they arrive. */
function grown(before: PageState, content: PageContent): PageState {
  return before.kind === 'held' && before.content === content ? before : { kind: 'held', content }
}

/** Converts the state of the swarm to the state of a page. */
export function pageState(now: SwarmState, swarm: Files, content = new ContentCache()): PageState {
  const { phase, presence, progress, peers, problems } = now
  const bytes = progress.bytesDone
  const total = progress.bytesTotal
  switch (phase) {
    case 'failed':
      return { kind: 'refused', reason: problems.findLast(({ fatal }) => fatal)?.sentence ?? text('failed') }
    case 'complete':
      return { kind: 'held', content: content.all(swarm) }
    case 'searching':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'joining' }
    case 'loading': {
      const sources = peers.filter(({ have }) => have !== 'none')
      const direct = sources.filter(({ path }) => path === 'direct').length
      const nodes = sources.filter(({ kind }) => kind === 'node').length
      return { kind: 'loading', bytes, total, peers: sources.length, direct, nodes, content: content.soFar(swarm) ?? undefined }
    }
    case 'unavailable':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'waiting', bytes, total, content: content.soFar(swarm) ?? undefined }
  }
}

/** Loads a file before the rest of its page: its start, or all of it with `whole`. */
export async function fetchFirst(page: Pick<Swarm, 'open'>, path: string, whole: boolean, signal: AbortSignal): Promise<void> {
  const file = await page.open(path, { signal })
  if (!whole) return
  try {
    const reader = file.read(0, file.size, { signal }).getReader()
    // The page stores what is read; this call only sets the priority.
    while (!(await reader.read()).done);
  } finally {
    file.close()
  }
}

/** The current warning: a rejection by the server, or the latest problem. */
export function warningOf({ presence, problems }: SwarmState): PageWarning | null {
  if (presence.kind === 'refused') return { kind: 'rejected', reason: presence.reason }
  const latest = problems.findLast(({ fatal }) => !fatal)
  return latest === undefined ? null : { kind: 'problem', sentence: latest.sentence }
}

/** The part of a session that the files of a page need. */
type Files = Pick<Swarm, 'listing' | 'file'> & Partial<Pick<Swarm, 'root' | 'open' | 'state' | 'live'> & Pick<ReadablePage, 'privacy'>>

/** Interval between lists of a live page that is not whole, in milliseconds. */
const LIVE_INTERVAL = 500
/** The same for a page whose files are not all known, for each file: a list of very many takes long to draw. */
const LISTED_INTERVAL_PER_FILE = 0.1

/** The files of a page. Each is the same object from when its size is known, so that players do not restart. */
export class ContentCache {
  #content: PageContent | null = null
  #listedAt = -Infinity
  /** When the page may be listed again. */
  #listAgainAt = -Infinity
  /** Whether a live page was whole when it was listed. */
  #isWhole = false

  all(swarm: Files): PageContent {
    const feed = swarm.live?.() ?? null
    if (feed !== null) return this.#live(feed, swarm)
    if (this.#content === null || isPartial(this.#content)) this.#content = contentOf(swarm.listing() ?? NOTHING, swarm, this.#content)
    return this.#content
  }

  /** `null` while a name may be missing. A size may be an estimate. */
  soFar(swarm: Files): PageContent | null {
    const feed = swarm.live?.() ?? null
    if (feed !== null) return this.#live(feed, swarm)
    const now = performance.now()
    if ((this.#content !== null && !isPartial(this.#content)) || now < this.#listAgainAt) return this.#content
    const listing = swarm.listing()
    if (listing?.hasNames) this.#content = contentOf(listing, swarm, this.#content)
    this.#listAgainAt = now + (listing?.files.length ?? 0) * LISTED_INTERVAL_PER_FILE
    return this.#content
  }

  /** A live page as the same object until it changes, and its files as the same objects for ever. */
  #live(feed: LiveFeed, swarm: Files): PageContent {
    const before = this.#content?.kind === 'live' ? this.#content : null
    const isWhole = swarm.state?.phase === 'complete'
    const isCurrent = this.#isWhole || (!isWhole && performance.now() - this.#listedAt < LIVE_INTERVAL)
    if (before?.feed === feed && isCurrent) return before
    this.#isWhole = isWhole
    this.#listedAt = performance.now()
    const known = new Map(before?.files.map((file) => [file.path, file]))
    // The size of a folder's file is not known before its block is here.
    const listed = (swarm.listing() ?? NOTHING).files.filter(({ size }) => size !== null)
    const files = listed.map((file) => known.get(file.path) ?? fileOf(file, swarm))
    if (before?.feed === feed && before.files.length === files.length) return before
    this.#content = { kind: 'live', feed, files }
    return this.#content
  }
}

const NOTHING: Listing = { files: [], links: 0, hasNames: true, isFinal: true }

const isPartial = (content: PageContent) => content.kind === 'directory' && content.isPartial === true

/** The content of a page. What has not changed since `before` is the same object. */
function contentOf({ files, links, isFinal }: Listing, swarm: Files, before: PageContent | null): PageContent {
  const [only] = files
  if (files.length === 1 && only !== undefined && only.path === '') {
    const { path: _path, ...file } = fileOf(only, swarm)
    return { kind: 'file', ...file }
  }
  const old = before?.kind === 'directory' ? before : null
  const known = new Map(old?.files.map((file) => [file.path, file]))
  const now = files.map((file) => {
    const same = known.get(file.path)
    return same !== undefined && (same.isEstimate === true) === (file.size === null) ? same : fileOf(file, swarm)
  })
  const isSame = old?.files.length === now.length && now.every((file, i) => file === old.files[i])
  if (isSame && old.links === links && isPartial(old) !== isFinal) return old
  return { kind: 'directory', files: now, links, ...(isFinal ? {} : { isPartial: true }) }
}

function fileOf({ path, size, about, modified }: Listing['files'][number], swarm: Files): DirectoryFile {
  return {
    path,
    size: size ?? about ?? 0,
    ...(size === null ? { isEstimate: true } : {}),
    ...(modified === undefined ? {} : { modified }),
    blob: () => swarm.file(path),
    ...streamedOf(swarm, path),
  }
}

function streamedOf(swarm: Files, path: string): { streamed: Streamed } | undefined {
  const { root, open, privacy } = swarm
  if (root === undefined || open === undefined) return undefined
  const isWhole = () => swarm.state?.phase === 'complete'
  const isSealed = privacy?.kind === 'open' && privacy.content.isReceived
  return { streamed: { cid: root, isWhole, isSealed, open: (options) => open.call(swarm, path, options) } }
}

/** Counts arrive often and change rarely; unchanged ones stay the same object. */
export function countsOf({ counts, peers, have }: Pick<SwarmState, 'counts' | 'peers' | 'have'>, before: Counts | null): Counts {
  const holders = peers.filter((peer) => peer.have === 'all')
  const nodes = atLeast(counts.nodes, holders.filter(({ kind }) => kind === 'node').length)
  const now = { ...atLeast(counts, holders.length + (have === 'all' ? 1 : 0)), nodes }
  return before !== null && isSame(before, now) && isSame(before.nodes ?? nodes, nodes) ? before : now
}

/** The server sends counts once a second. Until then, this tab counts the complete copies that it knows of. */
function atLeast({ watching, holders, partial }: HolderCounts, known: number): HolderCounts {
  const most = Math.max(holders, Math.min(known, watching))
  return { watching, holders: most, partial: Math.min(partial, Math.max(0, watching - most)) }
}

function isSame(a: HolderCounts, b: HolderCounts): boolean {
  return a.watching === b.watching && a.holders === b.holders && a.partial === b.partial
}

/** Converts an age to a date; returns the previous date when they differ only by the transit time. */
function dateOf(ago: number | null, before: number | null): number | null {
  if (ago === null) return null
  const date = Date.now() - ago
  return before !== null && Math.abs(date - before) < 1000 ? before : date
}

/** Unchanged traffic stays the same object. */
function trafficOf({ receivedBytes, sentBytes }: SwarmState, before: Traffic): Traffic {
  const same = before.receivedBytes === receivedBytes && before.sentBytes === sentBytes
  return same ? before : { receivedBytes, sentBytes }
}
