import { type BlockStore, buildDirectory, buildFile, type Cid, ContentError, dagBytesMax, MemoryBlockStore } from '../../content/index.ts'
import { defaultLimits } from '../../limits/index.ts'
import { encodeBeginning, newSigningKey, NODE_BYTES_MAX, TEXT_BYTES_MAX } from '../../live/index.ts'
import { livePages } from '../../messages/live.ts'
import { type MakeBlockStore, newBrowserBlockStore } from '../../storage/index.ts'
import type { LiveSource, Publication } from '../api.ts'
import { browserClock } from '../tab-clock.ts'
import { LivePage } from './live-page.ts'
import { Publisher } from './publisher.ts'

/** The most bytes of a node with one more link to a file or directory. */
const LINK_BYTES_MAX = 1024

export interface PublishLiveOptions {
  readonly pageBytesMax?: number
  /** Makes the store of the page. Default: the browser's disk, or memory if there is no disk. */
  readonly blocks?: MakeBlockStore
}

/**
 * Begins a live page, ready for `openPage`. Where the browser has a disk, its key and its blocks survive a reload: `openPage` with
 * `loadLive` then finds them, and can append.
 */
export async function publishLive(title: string, options: PublishLiveOptions = {}): Promise<Publication> {
  const { pageBytesMax = defaultLimits.pageBytesMax, blocks = defaultStore } = options
  const key = await newSigningKey()
  const { cid, bytes } = await encodeBeginning({ key: key.public, timeMs: Date.now(), title })
  const store = blocks(cid, pageBytesMax, (milliseconds, callback) => browserClock.after(milliseconds, callback))
  store.put(cid, bytes)
  const publisher = await Publisher.begin(key, store)
  return { root: cid.text, size: 0, blocks: 1, store, live: async () => LivePage.begin(cid, bytes, publisher) }
}

/** Outside of browsers, blocks stay in memory. */
const defaultStore: MakeBlockStore =
  typeof Worker === 'function' ? newBrowserBlockStore : (_root, pageBytesMax) => new MemoryBlockStore(dagBytesMax(pageBytesMax))

/**
 * Puts the blocks of an entry's content into the store of a page. Rejects with a `ContentError` if the page would have more than
 * `bytesMax` bytes. Returns the root, and the size of all blocks.
 */
export async function buildContent(
  store: BlockStore,
  entry: LiveSource,
  bytesMax: number,
  signal?: AbortSignal,
): Promise<{ cid: Cid; dagBytes: number }> {
  const sources = sourcesOf(entry)
  const bytes = sources.reduce((sum, { path, blob }) => sum + blob.size + LINK_BYTES_MAX + 3 * path.length, store.bytes + NODE_BYTES_MAX)
  if (bytes > bytesMax) throw new ContentError({ kind: 'too-large', bytes, bytesMax })
  const [only, ...others] = sources
  if (only === undefined) throw new Error(livePages('noFiles'))
  const options = signal === undefined ? {} : { signal }
  const building = others.length === 0 && !only.path.includes('/') ? buildFile(only.blob, options) : buildDirectory(sources, options)
  for (;;) {
    const step = await building.next()
    if (step.done) return step.value
    store.put(step.value.cid, step.value.block)
  }
}

function sourcesOf(entry: LiveSource) {
  if (entry.form === 'file') return entry.sources
  const blob = new Blob([entry.text])
  if (blob.size > TEXT_BYTES_MAX) throw new Error(livePages('longText'))
  return [{ path: '', blob }]
}
