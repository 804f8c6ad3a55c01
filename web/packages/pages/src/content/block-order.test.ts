import { describe, expect, it } from 'vitest'
import { MemoryBlockStore, blocksInOrder, buildFile, RAW, type Cid } from './index.ts'
import { pattern } from '../../test/pattern.ts'

/** Seven blocks of three bytes, three links a node: two levels of inner nodes. */
async function built(): Promise<{ store: MemoryBlockStore; root: Cid; leaves: Cid[] }> {
  const store = new MemoryBlockStore(1 << 20)
  const leaves: Cid[] = []
  const building = buildFile(new Blob([pattern(21)]), { profile: { chunkBytes: 3, linksMax: 3, directoryBytesMax: 1 << 18 } })
  for (;;) {
    const step = await building.next()
    if (step.done) return { store, root: step.value.cid, leaves }
    store.put(step.value.cid, step.value.block)
    if (step.value.cid.codec === RAW) leaves.push(step.value.cid)
  }
}

describe('the block order of a page', () => {
  it('lists each block once, an inner block before the blocks it links to', async () => {
    const { store, root, leaves } = await built()
    const order = blocksInOrder(store, root)
    expect(order[0]?.key).toBe(root.key)
    expect(order.filter(({ codec }) => codec === RAW).map(({ key }) => key)).toEqual(leaves.map(({ key }) => key))
    expect(order.filter(({ codec }) => codec !== RAW)).toHaveLength(4)
    expect(order).toHaveLength(store.blocks)
  })

  it('lists the blocks that the available inner blocks link to', async () => {
    const { store, root } = await built()
    expect(blocksInOrder(new MemoryBlockStore(1), root)).toEqual([root])
    const top = new MemoryBlockStore(1 << 20)
    const block = store.get(root)
    if (block !== null) top.put(root, block)
    expect(blocksInOrder(top, root)).toHaveLength(4)
  })
})
