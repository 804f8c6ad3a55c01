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
  const { emptyFolders = [] } = options
  const { first, isDirectory } = shapeOf(sources, options)
  const bytesTotal = sources.reduce((sum, { blob }) => sum + blob.size, 0)
  const building = isDirectory ? buildDirectory(sources, options, emptyFolders) : buildFile(first.blob, options, first.path)
  return storeBlocks(building, bytesTotal, sources.length + emptyFolders.length, options)
}

/** The first file of a page, and whether the page is a directory. Throws if there is no file. */
export function shapeOf(sources: readonly Source[], options: PublishOptions): { readonly first: Source; readonly isDirectory: boolean } {
  options.signal?.throwIfAborted()
  const [first] = sources
  if (first === undefined) throw new ContentError({ kind: 'no-such-file', path: '' })
  return { first, isDirectory: options.directory ?? (sources.length > 1 || first.path.includes('/')) }
}

/** Stores the blocks of a page while they are built. `sourceEntries`: the files and empty folders in it. */
export async function storeBlocks(
  building: ReturnType<typeof buildFile>,
  bytesTotal: number,
  sourceEntries: number,
  { pageBytesMax = defaultLimits.pageBytesMax, onProgress, onBlock }: PublishOptions,
): Promise<Publication> {
  if (bytesTotal > pageBytesMax) throw new ContentError({ kind: 'too-large', bytes: bytesTotal, bytesMax: pageBytesMax })
  const store = new MemoryBlockStore(dagBytesMax(pageBytesMax))
  const progress = new HashProgress(bytesTotal, onProgress)
  // Folders and their parts count as entries too, when they are built: nobody could list a page of more.
  let entries = sourceEntries
  for (;;) {
    if (entries > ENTRIES_MAX) throw new ContentError({ kind: 'too-many', what: 'entries', max: ENTRIES_MAX })
    const step = await building.next()
    if (step.done) {
      const { cid, size } = step.value
      return { root: cid.text, size, blocks: store.blocks, store }
    }
    const { cid, block, size, path } = step.value
    store.put(cid, block, path)
    onBlock?.(cid, block)
    if (store.blocks > BLOCKS_MAX) throw new ContentError({ kind: 'too-many', what: 'blocks', max: BLOCKS_MAX })
    if (block instanceof Uint8Array) entries++
    else progress.add(size)
  }
}
