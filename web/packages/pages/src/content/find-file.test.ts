import { describe, expect, it } from 'vitest'
import { MemoryBlockStore } from './block-store.ts'
import { buildDirectory } from './build-dag.ts'
import type { Cid } from './cid.ts'
import { findFile } from './find-file.ts'

const nameOf = (i: number) => `${i}`.padStart(200, '0')

/** A directory so large that it is in shards, and the blocks of its shards. */
async function sharded() {
  const store = new MemoryBlockStore(1 << 22)
  const building = buildDirectory(Array.from({ length: 1300 }, (_, i) => ({ path: nameOf(i), blob: new Blob([`${i}`]) })))
  let step = await building.next()
  for (; !step.done; step = await building.next()) store.put(step.value.cid, step.value.block)
  return { root: step.value.cid, store }
}

/** Looks a name up while no shard is here but those that were asked for. Returns the shards that were needed. */
async function lookUp(root: Cid, whole: MemoryBlockStore, name: string) {
  const part = new MemoryBlockStore(1 << 22)
  for (let needed = 0; ; needed++) {
    const found = findFile(part, root, name)
    if (found.kind !== 'absent') return { found, needed }
    expect(found.cids).toHaveLength(1)
    for (const cid of found.cids) part.put(cid, await whole.read(cid))
  }
}

describe('a file of a directory in shards', () => {
  it('is found by the shards on the way to it, without any other shard', async () => {
    const { root, store } = await sharded()
    for (const i of [0, 7, 700, 1299]) {
      const { found, needed } = await lookUp(root, store, nameOf(i))
      if (found.kind !== 'file') throw new Error('not found')
      expect(new TextDecoder().decode(await store.read(found.cid))).toBe(`${i}`)
      expect(needed).toBeLessThanOrEqual(4)
    }
  })

  it('that does not exist is known by the shards on the way to it', async () => {
    const { root, store } = await sharded()
    for (const name of ['no such file', nameOf(1300), '']) {
      const { found, needed } = await lookUp(root, store, name === '' ? `${nameOf(1)}/x` : name)
      expect(found.kind).not.toBe('file')
      expect(needed).toBeLessThanOrEqual(5)
    }
  })
})
