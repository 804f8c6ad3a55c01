import { BlockStore, buildFile, ContentError, dagBytesMax } from '../content/index.ts'
import { defaultLimits } from '../limits/index.ts'
import type { Publication, PublishOptions, Source } from '../swarm/index.ts'
import { newKey, readKey } from './key.ts'
import { PlainContent } from './plain.ts'
import type { Readable } from './readable.ts'
import { Records } from './records.ts'
import { SealedLeaves } from './sealed-leaves.ts'

export interface PrivatePublication extends Publication {
  /** What opens it, as it stands in the fragment of the link; nobody else has it. */
  readonly key: string
  /** The page as it is read here, without a detour over its ciphertext. */
  readonly content: Readable
}

export interface PrivateOptions extends PublishOptions {
  /** What the page is called. */
  readonly name?: string | null
}

/**
 * Seals the sources under a fresh key, and builds the DAG of the ciphertext, so that `openPage` can serve it. Neither is
 * kept: each leaf is sealed again when somebody asks for it. Rejects when they cannot be a page.
 */
export async function publishPrivate(
  sources: readonly Source[],
  options: PrivateOptions = {},
): Promise<PrivatePublication> {
  const { pageBytesMax = defaultLimits.pageBytesMax, onProgress, signal, name } = options
  signal?.throwIfAborted()
  const [first] = sources
  if (first === undefined) throw new ContentError({ kind: 'no-such-file', path: '' })
  const isDirectory = options.directory ?? (sources.length > 1 || first.path.includes('/'))
  const content = new PlainContent(name ?? '', isDirectory, sources)
  const bytesTotal = content.layout.sealedBytes
  if (bytesTotal > pageBytesMax) throw new ContentError({ kind: 'too-large', bytes: bytesTotal, bytesMax: pageBytesMax })
  const text = newKey()
  const key = readKey(text)
  if (key === null) throw new Error('a new key is a key')
  const records = await Records.sealing(key, content.layout)
  const source = name ?? first.path
  const store = new BlockStore(dagBytesMax(pageBytesMax))
  const building = buildFile(new SealedLeaves(content, records), signal ? { signal } : {})
  let bytesDone = 0
  for (;;) {
    const step = await building.next()
    if (step.done) {
      const size = content.index.entries.reduce((sum, { bytes }) => sum + bytes, 0)
      return { root: step.value.cid.text, size, blocks: store.blocks, store, key: text, content }
    }
    const { cid, block, size } = step.value
    if (block instanceof Uint8Array) {
      store.put(cid, block)
      continue
    }
    // One leaf that has changed ends them all: nobody can read a page of which a part is missing.
    store.put(cid, block, source)
    bytesDone += size
    onProgress?.({ bytesDone, bytesTotal })
  }
}
