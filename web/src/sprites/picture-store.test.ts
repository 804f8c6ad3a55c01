import { signal } from '@preact/signals'
import { expect, it, vi } from 'vitest'
import type { PageState } from '../ui/site.ts'
import { PictureStore } from './picture-store.ts'
import { PICTURE_BYTES_MAX, PICTURES_MAX, PICTURES_OF_MINE_MAX, SEARCH_INTERVAL } from './picture-bounds.ts'

const pictureOf = (name: string) => new TextEncoder().encode(name)
const held = (name: string): PageState => {
  const blob = new Blob([pictureOf(name)])
  return { kind: 'held', content: { kind: 'file', size: blob.size, blob: () => Promise.resolve(blob) } }
}

/** Where a picture's CID is `cid of` its bytes, and what begins with `bad` is none. */
function pretended() {
  const sought = new Map<string, { state: { value: PageState } }>()
  const on = new Set<string>()
  const addresses = new Set<string>()
  const timers: (() => void)[] = []
  let numbered = 0
  const textOf = async (picture: Blob) => new TextDecoder().decode(await picture.arrayBuffer())
  const join = (cid: string) => {
    if (on.has(cid)) throw new Error(`${cid} is joined twice`)
    on.add(cid)
    return () => void on.delete(cid)
  }
  const store = new PictureStore({
    share: (cid) => Promise.resolve({ close: join(cid) }),
    open(cid) {
      const session = { state: signal<PageState>({ kind: 'joining' }), close: join(cid) }
      sought.set(cid, session)
      return session
    },
    cidOf: async (bytes) => `cid of ${await textOf(new Blob([bytes]))}`,
    async check(picture) {
      if ((await textOf(picture)).startsWith('bad')) throw new Error('It is none.')
      return picture
    },
    addresses: {
      createObjectURL() {
        const address = `blob:${numbered++}`
        addresses.add(address)
        return address
      },
      revokeObjectURL: (address) => void addresses.delete(address),
    },
    after(milliseconds, callback) {
      expect(milliseconds).toBe(SEARCH_INTERVAL)
      timers.push(callback)
      return () => void timers.splice(timers.indexOf(callback), 1)
    },
  })
  const come = (cid: string, state: PageState) => {
    const session = sought.get(cid)
    if (session === undefined) throw new Error(`nobody looked for ${cid}`)
    session.state.value = state
  }
  const allLookedFor = () => {
    while (timers.length > 0) timers.shift()?.()
  }
  return { store, on, sought, addresses, timers, come, allLookedFor }
}

const shown = (store: PictureStore, cid: string) => vi.waitFor(() => expect(store.state(cid).value.kind).toBe('shown'))

it('the picture of a sprite is loaded, shown, and still shared when the sprite has gone', async () => {
  const { store, on, addresses, come } = pretended()
  store.use(['cid of cat'])
  expect(store.state('cid of cat').value).toEqual({ kind: 'coming' })
  come('cid of cat', held('cat'))
  await shown(store, 'cid of cat')
  expect(addresses.size).toBe(1)
  store.use([])
  expect([...on]).toEqual(['cid of cat'])
  store.close()
  expect([on.size, addresses.size]).toEqual([0, 0])
})

it('a picture that nobody has is missing with a reason, and shown as soon as somebody has it', async () => {
  const { store, come } = pretended()
  store.use(['cid of cat'])
  come('cid of cat', { kind: 'waiting', bytes: 0, total: null })
  expect(store.state('cid of cat').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('Nobody') })
  come('cid of cat', held('cat'))
  await shown(store, 'cid of cat')
})

it('an invalid or oversized picture is not shown, not shared, and not loaded again', async () => {
  const folder: PageState = { kind: 'held', content: { kind: 'directory', files: [] } }
  const large = { kind: 'held', content: { kind: 'file', size: PICTURE_BYTES_MAX + 1, blob: () => Promise.reject(new Error('read')) } } as const
  for (const state of [held('bad cat'), folder, large]) {
    const { store, on, sought, addresses, come, allLookedFor } = pretended()
    store.use(['cid of cat'])
    come('cid of cat', state)
    await vi.waitFor(() => expect(store.state('cid of cat').value.kind).toBe('missing'))
    expect([on.size, addresses.size]).toEqual([0, 0])
    sought.clear()
    store.use(['cid of cat'])
    allLookedFor()
    expect(sought.size).toBe(0)
  }
})

it('an own picture is shown and shared at once', async () => {
  const { store, on, sought } = pretended()
  const cid = await store.add({ bytes: pictureOf('dog'), isMine: true })
  store.use([cid])
  expect(store.state(cid).value.kind).toBe('shown')
  expect([[...on], sought.size]).toEqual([['cid of dog'], 0])
  await expect(store.add({ bytes: pictureOf('bad'), isMine: true })).rejects.toThrow('It is none.')
})

it('a picture that is loading and then added here is shared, on its topic once', async () => {
  const { store, on } = pretended()
  store.use(['cid of cat'])
  await store.add({ bytes: pictureOf('cat'), isMine: true })
  await shown(store, 'cid of cat')
  expect([...on]).toEqual(['cid of cat'])
})

it('searches start one after the other', () => {
  const { store, sought, timers, allLookedFor } = pretended()
  store.use(['a', 'b', 'c'])
  expect([...sought.keys()]).toEqual(['a'])
  timers.shift()?.()
  expect([...sought.keys()]).toEqual(['a', 'b'])
  // What left meanwhile is still worth having: it is looked for like the others, while there is room.
  store.use(['a'])
  allLookedFor()
  expect([...sought.keys()]).toEqual(['a', 'b', 'c'])
})

it('beyond the limit the least recently used picture is dropped, those in use last', async () => {
  const { store, on, addresses, come, allLookedFor } = pretended()
  const named = (n: number) => `cid of ${n}`
  for (let n = 0; n < PICTURES_MAX; n++) {
    store.use([named(0), named(n)])
    allLookedFor()
    come(named(n), held(`${n}`))
    await shown(store, named(n))
  }
  store.use([named(0), 'cid of new'])
  allLookedFor()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has(named(0)) && on.has('cid of new')).toBe(true)
  expect(on.has(named(1))).toBe(false)
  expect(addresses.size).toBe(PICTURES_MAX - 1)
})

it('many received pictures do not displace own ones, and the dropped ones show a reason', async () => {
  const { store, on, sought, allLookedFor } = pretended()
  const mine = await store.add({ bytes: pictureOf('mine'), isMine: true })
  const rain = Array.from({ length: 140 }, (_, n) => `rain ${n}`)
  store.use([mine, ...rain])
  allLookedFor()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has('cid of mine')).toBe(true)
  expect(sought.size).toBe(PICTURES_MAX - 1)
  expect(store.state('rain 0').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('too many') })
  expect(store.state('rain 139').value.kind).toBe('coming')
  // The same sprites, moving about, change nothing.
  const before = [...on]
  store.use([mine, ...rain])
  allLookedFor()
  expect([...on]).toEqual(before)
})

it('beyond their limit the least recently used own picture is dropped', async () => {
  const { store, on } = pretended()
  for (let n = 0; n <= PICTURES_OF_MINE_MAX; n++) await store.add({ bytes: pictureOf(`${n}`), isMine: true })
  expect(on.size).toBe(PICTURES_OF_MINE_MAX)
  expect(on.has('cid of 0')).toBe(false)
})

it('a reload keeps own pictures and those in use, and searches for nothing in vain', async () => {
  const before = pretended()
  await before.store.add({ bytes: pictureOf('mine'), isMine: true })
  before.store.use(['cid of used', 'cid of coming'])
  before.allLookedFor()
  before.come('cid of used', held('used'))
  await shown(before.store, 'cid of used')
  const kept = before.store.saved()
  expect(kept.map(({ isMine }) => isMine)).toEqual([true, false])

  const { store, on, sought, allLookedFor } = pretended()
  const restored = store.restore([...kept, { bytes: pictureOf('bad'), isMine: true }])
  store.use(['cid of used', 'cid of coming'])
  expect(sought.size).toBe(0)
  await restored
  allLookedFor()
  expect([...sought.keys()]).toEqual(['cid of coming'])
  expect([...on].sort()).toEqual(['cid of coming', 'cid of mine', 'cid of used'])
  expect(store.state('cid of used').value.kind).toBe('shown')
})

it('a store that is closed while a picture loads shows and shares nothing', async () => {
  const { store, on, addresses, come } = pretended()
  store.use(['cid of cat'])
  come('cid of cat', held('cat'))
  const holding = store.add({ bytes: pictureOf('dog'), isMine: true })
  store.close()
  await holding
  await new Promise((resolve) => setImmediate(resolve))
  expect([on.size, addresses.size]).toEqual([0, 0])
})
