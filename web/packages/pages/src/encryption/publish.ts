import { buildFile, inTasks } from '../content/index.ts'
import type { Publication, PublishOptions, Source } from '../swarm/index.ts'
import { shapeOf, storeBlocks } from '../swarm/publish.ts'
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
  const { first, isDirectory } = shapeOf(sources, options)
  const { name, emptyFolders, signal } = options
  const content = await inTasks(PlaintextContent.of(name ?? '', isDirectory, sources, emptyFolders), signal)
  const key = newKey()
  const records = await Records.sealing(key, content.layout)
  // All leaves have one path. If one leaf has changed, no leaf is served: a page with a missing part cannot be read.
  const building = buildFile(new SealedLeaves(content, records), options, name ?? first.path)
  const publication = await storeBlocks(building, content.layout.sealedBytes, 1, options)
  const size = content.index.entries.reduce((sum, { bytes }) => sum + bytes, 0)
  return { ...publication, size, key: writeKey(key), content }
}
