import { describe, expect, it } from 'vitest'
import { MemoryBlockStore } from './block-store.ts'
import type { Bytes } from './bytes.ts'
import { cidOf, DAG_PB, RAW, type Cid } from './cid.ts'
import { DecodedNodes, decodedNodesOf, nodeIn } from './decoded-nodes.ts'
import { encodeDirectory } from './unixfs.ts'

async function directoryOf(store: MemoryBlockStore, name: string, links: number): Promise<Cid> {
  const cid = await cidOf(RAW, new Uint8Array([1]))
  const block = encodeDirectory(Array.from({ length: links }, (_, i) => ({ cid, dagBytes: 1, name: `${name}${i}` })))
  const root = await cidOf(DAG_PB, block)
  store.put(root, block)
  return root
}

describe('the nodes of a store', () => {
  it('are decoded once, and known as missing before they arrive', async () => {
    const store = new MemoryBlockStore(1 << 20)
    const cid = await directoryOf(store, 'a', 3)
    expect(nodeIn(store, cid)).toBe(nodeIn(store, cid))
    expect(nodeIn(new MemoryBlockStore(10), cid)).toBeNull()
    expect(decodedNodesOf(store)).toBe(decodedNodesOf(store))
  })

  it('are kept up to a limit, and decoded again after it', async () => {
    const store = new MemoryBlockStore(1 << 20)
    const cids = await Promise.all(['a', 'b', 'c'].map((name) => directoryOf(store, name, 30)))
    const nodes = new DecodedNodes(65)
    const decoded = cids.map((cid) => nodes.decode(cid, store.get(cid) as Bytes))
    const isSame = (i: number) => nodes.decode(cids[i] as Cid, store.get(cids[i] as Cid) as Bytes) === decoded[i]
    expect([isSame(2), isSame(1), isSame(0)]).toEqual([true, true, false])
  })
})
