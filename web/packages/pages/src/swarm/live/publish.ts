import { type BlockStore, buildDirectory, buildFile, type Cid, ContentError, dagBytesMax, MemoryBlockStore } from '../../content/index.ts'
import { defaultLimits } from '../../limits/index.ts'
import { encodeBeginning, newSigningKey, NODE_BYTES_MAX, TEXT_BYTES_MAX } from '../../live/index.ts'
import { livePages } from '../../messages/live.ts'
import type { LiveSource, Publication } from '../api.ts'
import { LivePage } from './live-page.ts'

/** The most bytes of a node with one more link to a file or directory. */
const LINK_BYTES_MAX = 1024

/**
 * Begins a live page, ready for `openPage`. Its key lives as long as the tab: nobody can append to the page after a reload.
 */
export async function publishLive(title: string, options: { readonly pageBytesMax?: number } = {}): Promise<Publication> {
  const { pageBytesMax = defaultLimits.pageBytesMax } = options
  const key = await newSigningKey()
  const { cid, bytes } = await encodeBeginning({ key: key.public, timeMs: Date.now(), title })
  const store = new MemoryBlockStore(dagBytesMax(pageBytesMax))
  store.put(cid, bytes)
  return { root: cid.text, size: 0, blocks: 1, store, live: async () => LivePage.begin(cid, bytes, key) }
}

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
