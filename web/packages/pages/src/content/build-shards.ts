import type { Bytes } from './bytes.ts'
import { cidOf, DAG_PB, type Cid } from './cid.ts'
import { encodePbNode, type PbLink } from './dag-pb.ts'
import { ContentError } from './error.ts'
import { MessageWriter } from './protobuf.ts'
import { bitmapOf, HASH_TYPE, hashOf, SHARD_TYPE, slotName, slotOf } from './shard.ts'
import { forEachItem, ItemCount, nextTask, sorted, type PausingWork } from './tasks.ts'

/** The fanout of shards that are built, as in kubo. */
const FANOUT = 256

export interface HashedEntry {
  readonly link: PbLink & { dagBytes: number }
  readonly hash: bigint
}

/** Entries in the order of their hashes. Throws if two names have the same hash. */
export function* hashEntries(links: readonly (PbLink & { dagBytes: number })[]): PausingWork<HashedEntry[]> {
  const entries: HashedEntry[] = []
  const count = new ItemCount()
  yield* forEachItem(links, (link) => entries.push({ link, hash: hashOf(link.name) }), count)
  const inOrder = yield* sorted(entries, (a, b) => (a.hash < b.hash ? -1 : a.hash > b.hash ? 1 : 0), count)
  for (const [i, { hash, link }] of inOrder.entries()) {
    if (hash === inOrder[i + 1]?.hash) throw new ContentError({ kind: 'bad-path', path: link.name })
  }
  return inOrder
}

/**
 * Builds the shards for entries whose hashes have the same first `bits`, few of them in a task. The block of the outermost shard comes
 * last.
 */
export async function* buildShards(
  entries: readonly HashedEntry[],
  bits = 0,
  count = new ItemCount(),
): AsyncGenerator<{ cid: Cid; block: Bytes; size: number }, { cid: Cid; dagBytes: number }> {
  // In the order of their slots, as the entries are.
  const bySlot = new Map<number, [HashedEntry, ...HashedEntry[]]>()
  for (const entry of entries) {
    const slot = slotOf(entry.hash, bits, FANOUT)
    const group = bySlot.get(slot)
    if (group === undefined) bySlot.set(slot, [entry])
    else group.push(entry)
  }
  const links: (PbLink & { dagBytes: number })[] = []
  for (const [slot, group] of bySlot) {
    const name = slotName(slot, FANOUT)
    const [{ link }, ...others] = group
    if (others.length === 0) links.push({ ...link, name: name + link.name })
    else links.push({ ...(yield* buildShards(group, bits + Math.log2(FANOUT), count)), name })
  }
  // Chromium has the hash of a short block without waiting.
  if (count.isPauseDue(links.length)) await nextTask()
  const data = new MessageWriter()
    .uint(1, SHARD_TYPE)
    .bytes(2, bitmapOf([...bySlot.keys()]))
    .uint(5, HASH_TYPE)
    .uint(6, FANOUT)
  const block = encodePbNode({ links, data: data.finish() })
  const cid = await cidOf(DAG_PB, block)
  yield { cid, block, size: block.length }
  return { cid, dagBytes: links.reduce((sum, link) => sum + link.dagBytes, block.length) }
}
