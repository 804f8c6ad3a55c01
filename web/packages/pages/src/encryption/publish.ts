import { MemoryBlockStore, buildFile, ContentError, dagBytesMax, HashProgress, inTasks } from '../content/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { Publication, PublishOptions, Source } from '../swarm/index.ts'
import { newKey, writeKey } from './key.ts'
import { PlaintextContent } from './plaintext-content.ts'
import type { ReadableContent } from './readable-content.ts'
import { Records } from './records.ts'
import { SealedLeaves } from './sealed-leaves.ts'

export interface PrivatePublication extends Publication {
  /** The key, as in the fragment of the link. No other peer has it. */
  readonly key: string
  /** The plaintext, so that this tab needs not decrypt its own page. */
  readonly content: ReadableContent
}

export interface PrivateOptions extends PublishOptions {
  /** The name of the page. */
  readonly name?: string | null
}

/**
 * Encrypts files with a new key and builds the DAG of the ciphertext, ready for `openPage`. Neither is stored: each
 * leaf is encrypted again when a peer wants it. Rejects if the files cannot be a page.
 */
export async function publishPrivate(sources: readonly Source[], options: PrivateOptions = {}): Promise<PrivatePublication> {
  const { pageBytesMax = defaultLimits.pageBytesMax, onProgress, signal, name } = options
  signal?.throwIfAborted()
  const [first] = sources
  if (first === undefined) throw new ContentError({ kind: 'no-such-file', path: '' })
  const isDirectory = options.directory ?? (sources.length > 1 || first.path.includes('/'))
  const content = await inTasks(PlaintextContent.of(name ?? '', isDirectory, sources, options.emptyFolders), signal)
  const bytesTotal = content.layout.sealedBytes
  if (bytesTotal > pageBytesMax) throw new ContentError({ kind: 'too-large', bytes: bytesTotal, bytesMax: pageBytesMax })
  const key = newKey()
  const records = await Records.sealing(key, content.layout)
  const source = name ?? first.path
  const store = new MemoryBlockStore(dagBytesMax(pageBytesMax))
  const building = buildFile(new SealedLeaves(content, records), signal ? { signal } : {})
  const progress = new HashProgress(bytesTotal, onProgress)
  for (;;) {
    const step = await building.next()
    if (step.done) {
      const size = content.index.entries.reduce((sum, { bytes }) => sum + bytes, 0)
      return { root: step.value.cid.text, size, blocks: store.blocks, store, key: writeKey(key), content }
    }
    const { cid, block, size } = step.value
    if (block instanceof Uint8Array) {
      store.put(cid, block)
      continue
    }
    // If one leaf has changed, no leaf is served. A page with a missing part cannot be read.
    store.put(cid, block, source)
    progress.add(size)
  }
}
