import {
  BLOCKS_MAX,
  MemoryBlockStore,
  buildDirectory,
  buildFile,
  ContentError,
  dagBytesMax,
  ENTRIES_MAX,
  HashProgress,
} from '../content/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { Publication, PublishOptions, Source } from './api.ts'

/**
 * Chunks and hashes files and builds their DAG, ready for `openPage`. Files are not copied: blocks are slices of them.
 * Rejects with a `ContentError` if they cannot be a page.
 */
export async function publish(sources: readonly Source[], options: PublishOptions = {}): Promise<Publication> {
  const { pageBytesMax = defaultLimits.pageBytesMax, onProgress, signal } = options
  signal?.throwIfAborted()
  const [first] = sources
  if (first === undefined) throw new ContentError({ kind: 'no-such-file', path: '' })
  const bytesTotal = sources.reduce((sum, { blob }) => sum + blob.size, 0)
  if (bytesTotal > pageBytesMax) throw new ContentError({ kind: 'too-large', bytes: bytesTotal, bytesMax: pageBytesMax })
  // Folders and their parts count as entries too, when they are built: nobody could list a page of more.
  let entries = sources.length + (options.emptyFolders?.length ?? 0)
  const store = new MemoryBlockStore(dagBytesMax(pageBytesMax))
  const asDirectory = options.directory ?? (sources.length > 1 || first.path.includes('/'))
  const building = asDirectory
    ? buildDirectory(sources, signal ? { signal } : {}, options.emptyFolders)
    : buildFile(first.blob, signal ? { signal } : {}, first.path)
  const progress = new HashProgress(bytesTotal, onProgress)
  for (;;) {
    if (entries > ENTRIES_MAX) throw new ContentError({ kind: 'too-many', what: 'entries', max: ENTRIES_MAX })
    const step = await building.next()
    if (step.done) {
      const { cid, size } = step.value
      return { root: cid.text, size, blocks: store.blocks, store }
    }
    const { cid, block, size, path } = step.value
    store.put(cid, block, path)
    if (store.blocks > BLOCKS_MAX) throw new ContentError({ kind: 'too-many', what: 'blocks', max: BLOCKS_MAX })
    if (block instanceof Blob) progress.add(size)
    else entries++
  }
}
