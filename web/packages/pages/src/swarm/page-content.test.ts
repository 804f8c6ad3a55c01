import { describe, expect, it } from 'vitest'
import type { Input } from '../bitswap/index.ts'
import { ContentError, MemoryBlockStore, parseCid, type BlockStore, type Bytes } from '../content/index.ts'
import { pattern } from '../../test/pattern.ts'
import { PageContent } from './page-content.ts'
import { publish } from './publish.ts'

const BYTES_MAX = 64 << 20

async function publishedFile() {
  const publication = await publish([{ path: 'film.bin', blob: new Blob([pattern(3 << 20)]) }])
  return { root: parseCid(publication.root), store: publication.store }
}

function open(root: ReturnType<typeof parseCid>, store: BlockStore, ownsStore = true, onInputs = () => {}) {
  const inputs: Input[] = []
  const events: string[] = []
  const content = new PageContent(root, BYTES_MAX, store, ownsStore, {
    isOver: () => false,
    handleInputs: (more) => {
      onInputs()
      inputs.push(...more)
    },
    onHave: () => events.push('have'),
    onProblem: ({ fatal }) => events.push(fatal ? 'fatal' : 'problem'),
    onLive: () => {},
    loadLive: async () => null,
    onListed: () => {},
    onFailure: (error) => events.push(error.problem.kind),
  })
  return { content, inputs, events }
}

describe('page content', () => {
  it('is complete from the start in the tab that published it', async () => {
    const { root, store } = await publishedFile()
    const { content, inputs } = open(root, store, false)
    content.findLocalBlocks()
    expect(content.have).toBe('all')
    expect(inputs).toEqual([])
    content.start()
    expect(new Set(inputs.map(({ kind }) => kind))).toEqual(new Set(['stored']))
    expect(content.isComplete).toBe(true)
    content.clear()
    expect(store.has(root)).toBe(true)
  })

  it('wants the root first, and then the blocks that the root links to', async () => {
    const { root, store } = await publishedFile()
    const { content, inputs, events } = open(root, new MemoryBlockStore(BYTES_MAX))
    content.findLocalBlocks()
    content.start()
    expect(inputs).toMatchObject([{ kind: 'want', wants: [{ cid: root }] }])
    expect(content.blocks()).toBe(null)
    inputs.length = 0
    content.storeBlock({ cid: root, data: (await store.read(root)) as Bytes })
    expect(inputs).toMatchObject([
      { kind: 'stored', cid: root },
      { kind: 'want', wants: [{}, {}, {}] },
    ])
    expect(content.have).toBe('some')
    expect(content.blocks()?.cids.length).toBe(4)
    expect(events).toEqual(['have', 'have'])
  })

  it('reports that a part of a restored page is here before it requests the rest', async () => {
    const { root, store } = await publishedFile()
    const left = new MemoryBlockStore(BYTES_MAX)
    left.put(root, (await store.read(root)) as Bytes)
    const restored = Promise.resolve()
    let reported = -1
    const { content, inputs, events } = open(root, Object.assign(left, { restored }), true, () => (reported = events.length))
    content.findLocalBlocks()
    content.start()
    expect([inputs, events]).toEqual([[], ['have']])
    await restored
    expect([inputs.map(({ kind }) => kind), reported]).toEqual([['stored', 'want'], 2])
  })

  it('stops wanting blocks when the store is full, and reports it once', async () => {
    const { root, store } = await publishedFile()
    const full = new MemoryBlockStore(BYTES_MAX)
    const { content, inputs, events } = open(root, full)
    content.start()
    full.put = () => {
      throw new ContentError({ kind: 'no-room', bytes: 0 })
    }
    const block = { cid: root, data: (await store.read(root)) as Bytes }
    const reading = content.open('a.txt', {})
    const wanted = content.file('a.txt', {})
    content.storeBlock(block)
    content.storeBlock(block)
    // A file that is saved would wait for ever for the rest.
    await expect(reading).rejects.toMatchObject({ problem: { kind: 'no-room' } })
    await expect(content.open('a.txt', {})).rejects.toMatchObject({ problem: { kind: 'no-room' } })
    await expect(wanted).rejects.toMatchObject({ problem: { kind: 'no-room' } })
    await expect(content.file('a.txt', {})).rejects.toMatchObject({ problem: { kind: 'no-room' } })
    expect(inputs.filter(({ kind }) => kind === 'cancel-wants').length).toBe(1)
    expect(events.filter((event) => event === 'problem').length).toBe(1)
  })

  it('reports a failure when the root is not valid', () => {
    const root = parseCid('bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi')
    const { content, events } = open(root, new MemoryBlockStore(BYTES_MAX))
    content.findLocalBlocks()
    content.start()
    content.storeBlock({ cid: root, data: new Uint8Array([255]) })
    expect(events).toContain('malformed')
  })
})
