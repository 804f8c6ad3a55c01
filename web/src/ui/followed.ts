import type { Signal } from '@preact/signals'
import type { ReadablePage, Seal } from '../private/index.ts'
import type { Entry, PageSession as Swarm, PageState as SwarmState } from '../swarm/index.ts'
import { swarm as words } from '../words/swarm.ts'
import type { Counts, Share } from './sentences.ts'
import type { PageContent, PageState, Streamed, Traffic, Trouble } from './site.ts'

/** What is told of a page, kept up to date by `follow`. */
export interface Told {
  readonly state: Signal<PageState>
  readonly counts: Signal<Counts | null>
  readonly key: Signal<string | null>
  readonly name: Signal<string | null>
  readonly trouble: Signal<Trouble | null>
  readonly traffic: Signal<Traffic>
  readonly lastLit: Signal<number | null>
  /** The key that was last tried. */
  readonly tried: string | null
}

/** Tells of a page from now on, until the returned function is called. */
export function follow(page: ReadablePage, told: Told): () => void {
  const { state, counts, key, name, trouble, traffic, lastLit } = told
  const content = new ContentTold()
  return page.subscribe((now) => {
    // What is held stays held, and stays the same object, so that it is not drawn anew.
    if (page.seal.kind === 'closed') state.value = lockOf(page.seal, pageState(now, page), state.peek())
    else if (state.peek().kind !== 'held') state.value = pageState(now, page, content)
    if (page.seal.kind === 'open') {
      key.value = told.tried
      name.value = page.seal.content.index.name || null
    }
    trouble.value = troubleOf(now)
    traffic.value = trafficOf(now, traffic.peek())
    lastLit.value = dateOf(now.lastLit, lastLit.peek())
    if (now.presence.kind === 'joined') counts.value = countsOf(now, counts.peek())
  })
}

/** How a private page stands that is closed; the same as before stays the same object. */
function lockOf(seal: Extract<Seal, { kind: 'closed' }>, state: PageState, before: PageState): PageState {
  if (state.kind === 'refused') return state
  const reason = seal.problem?.message ?? null
  const coming = state.kind === 'loading' || state.kind === 'waiting' ? state : null
  const same = before.kind === 'locked' && before.reason === reason && before.coming === coming
  return same ? before : { kind: 'locked', reason, coming }
}

/** The state of the swarm in the words of a page. */
export function pageState(now: SwarmState, swarm: Files, content = new ContentTold()): PageState {
  const { phase, presence, progress, peers, problems } = now
  const bytes = progress.bytesDone
  const total = progress.bytesTotal
  switch (phase) {
    case 'failed':
      return { kind: 'refused', reason: problems.findLast(({ fatal }) => fatal)?.sentence ?? words('failed') }
    case 'complete':
      return { kind: 'held', content: content.all(swarm) }
    case 'searching':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'joining' }
    case 'loading': {
      const asked = peers.filter(({ have }) => have !== 'none')
      const direct = asked.filter(({ path }) => path === 'direct').length
      const nodes = asked.filter(({ kind }) => kind === 'node').length
      return { kind: 'loading', bytes, total, peers: asked.length, direct, nodes, content: content.soFar(swarm) ?? undefined }
    }
    case 'dark':
      if (presence.kind === 'refused') return { kind: 'refused', reason: presence.reason }
      return { kind: 'waiting', bytes, total, content: content.soFar(swarm) ?? undefined }
  }
}

/** Has a file come before the rest of its page: how it begins, and the whole of it when that is wanted. */
export async function fetchFirst(page: Pick<Swarm, 'open'>, path: string, whole: boolean, signal: AbortSignal): Promise<void> {
  const file = await page.open(path, { signal })
  if (!whole) return
  try {
    const reader = file.read(0, file.size, { signal }).getReader()
    // What is read is kept where all of the page is; here it was only asked for.
    while (!(await reader.read()).done);
  } finally {
    file.close()
  }
}

/** What goes wrong while the page goes on: what the server refuses, or else the latest problem. */
export function troubleOf({ presence, problems }: SwarmState): Trouble | null {
  if (presence.kind === 'refused') return { kind: 'unfound', reason: presence.reason }
  const latest = problems.findLast(({ fatal }) => !fatal)
  return latest === undefined ? null : { kind: 'problem', sentence: latest.sentence }
}

/** What the files of a page are asked of. */
type Files = Pick<Swarm, 'entries' | 'file'> & Partial<Pick<Swarm, 'root' | 'open' | 'state'>>

/** Between two looks at a page whose files are not all known. */
const LISTED_INTERVAL = 500

/** The files of a page, told as the same objects from when they are known, so that what plays is not begun anew. */
class ContentTold {
  #content: PageContent | null = null
  #listedAt = -Infinity

  all(swarm: Files): PageContent {
    this.#content ??= contentOf(swarm.entries() ?? [], swarm)
    return this.#content
  }

  /** `null` while there is a file whose size nobody knows. */
  soFar(swarm: Files): PageContent | null {
    if (this.#content !== null || performance.now() - this.#listedAt < LISTED_INTERVAL) return this.#content
    const entries = swarm.entries()
    if (entries !== null && entries.length > 0 && entries.every(({ size }) => size !== null)) {
      this.#content = contentOf(entries, swarm)
    } else if (entries !== null) this.#listedAt = performance.now()
    return this.#content
  }
}

function contentOf(entries: readonly Entry[], swarm: Files): PageContent {
  const [only] = entries
  const bytesOf = ({ path, size }: Entry) => ({ size: size ?? 0, blob: () => swarm.file(path), ...streamedOf(swarm, path) })
  if (entries.length === 1 && only !== undefined && only.path === '') {
    return { kind: 'file', ...bytesOf(only) }
  }
  return { kind: 'directory', files: entries.map((entry) => ({ path: entry.path, ...bytesOf(entry) })) }
}

function streamedOf(swarm: Files, path: string): { streamed: Streamed } | undefined {
  const { root, open } = swarm
  if (root === undefined || open === undefined) return undefined
  const isWhole = () => swarm.state?.phase === 'complete'
  return { streamed: { cid: root, isWhole, open: (options) => open.call(swarm, path, options) } }
}

/** Counts are told often and change seldom; the same ones stay the same object. */
export function countsOf({ counts, peers, phase }: Pick<SwarmState, 'counts' | 'peers' | 'phase'>, before: Counts | null): Counts {
  const holders = peers.filter(({ have }) => have === 'all')
  const nodes = atLeast(counts.nodes, holders.filter(({ kind }) => kind === 'node').length)
  const now = { ...atLeast(counts, holders.length + (phase === 'complete' ? 1 : 0)), nodes }
  return before !== null && isSame(before, now) && isSame(before.nodes ?? nodes, nodes) ? before : now
}

/** The server tells its counts once a second: until then this tab would take the copy of another for its own. */
function atLeast({ watching, holders, partial }: Share, known: number): Share {
  const most = Math.max(holders, Math.min(known, watching))
  return { watching, holders: most, partial: Math.min(partial, Math.max(0, watching - most)) }
}

function isSame(a: Share, b: Share): boolean {
  return a.watching === b.watching && a.holders === b.holders && a.partial === b.partial
}

/** The date of something so long ago; the one from before when it is that, but for the time it took to tell. */
function dateOf(ago: number | null, before: number | null): number | null {
  if (ago === null) return null
  const date = Date.now() - ago
  return before !== null && Math.abs(date - before) < 1000 ? before : date
}

/** The same as before stays the same object. */
function trafficOf({ receivedBytes, sentBytes }: SwarmState, before: Traffic): Traffic {
  const same = before.receivedBytes === receivedBytes && before.sentBytes === sentBytes
  return same ? before : { receivedBytes, sentBytes }
}
