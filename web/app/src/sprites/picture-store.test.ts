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

/** A store in which a picture's CID is `cid of` its bytes, and bytes that begin with `bad` are not a picture. */
function fakeStore() {
  const opened = new Map<string, { state: { value: PageState } }>()
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
      opened.set(cid, session)
      return session
    },
    cidOf: async (bytes) => `cid of ${await textOf(new Blob([bytes]))}`,
    async check(picture) {
      if ((await textOf(picture)).startsWith('bad')) throw new Error('It is not a picture.')
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
  const setState = (cid: string, state: PageState) => {
    const session = opened.get(cid)
    if (session === undefined) throw new Error(`${cid} was not opened`)
    session.state.value = state
  }
  const runSearches = () => {
    while (timers.length > 0) timers.shift()?.()
  }
  return { store, on, opened, addresses, timers, setState, runSearches }
}

const shown = (store: PictureStore, cid: string) => vi.waitFor(() => expect(store.state(cid).value.kind).toBe('shown'))

it('the picture of a sprite is loaded, shown, and still shared when the sprite has gone', async () => {
  const { store, on, addresses, setState } = fakeStore()
  store.use(['cid of cat'])
  expect(store.state('cid of cat').value).toEqual({ kind: 'coming' })
  setState('cid of cat', held('cat'))
  await shown(store, 'cid of cat')
  expect(addresses.size).toBe(1)
  store.use([])
  expect([...on]).toEqual(['cid of cat'])
  store.close()
  expect([on.size, addresses.size]).toEqual([0, 0])
})

it('a picture that no peer has is missing with a reason, and shown as soon as a peer has it', async () => {
  const { store, setState } = fakeStore()
  store.use(['cid of cat'])
  setState('cid of cat', { kind: 'waiting', bytes: 0, total: null })
  expect(store.state('cid of cat').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('Nobody') })
  setState('cid of cat', held('cat'))
  await shown(store, 'cid of cat')
})

it('an invalid or oversized picture is not shown, not shared, and not loaded again', async () => {
  const folder: PageState = { kind: 'held', content: { kind: 'directory', files: [], links: 0 } }
  const large = {
    kind: 'held',
    content: { kind: 'file', size: PICTURE_BYTES_MAX + 1, blob: () => Promise.reject(new Error('read')) },
  } as const
  for (const state of [held('bad cat'), folder, large]) {
    const { store, on, opened, addresses, setState, runSearches } = fakeStore()
    store.use(['cid of cat'])
    setState('cid of cat', state)
    await vi.waitFor(() => expect(store.state('cid of cat').value.kind).toBe('missing'))
    expect([on.size, addresses.size]).toEqual([0, 0])
    opened.clear()
    store.use(['cid of cat'])
    runSearches()
    expect(opened.size).toBe(0)
  }
})

it('an own picture is shown and shared at once', async () => {
  const { store, on, opened } = fakeStore()
  const cid = await store.add({ bytes: pictureOf('dog'), isMine: true })
  store.use([cid])
  expect(store.state(cid).value.kind).toBe('shown')
  expect([[...on], opened.size]).toEqual([['cid of dog'], 0])
  await expect(store.add({ bytes: pictureOf('bad'), isMine: true })).rejects.toThrow('It is not a picture.')
})

it('a picture that is loading and then added here is shared, on its topic once', async () => {
  const { store, on } = fakeStore()
  store.use(['cid of cat'])
  await store.add({ bytes: pictureOf('cat'), isMine: true })
  await shown(store, 'cid of cat')
  expect([...on]).toEqual(['cid of cat'])
})

it('searches start one after the other', () => {
  const { store, opened, timers, runSearches } = fakeStore()
  store.use(['a', 'b', 'c'])
  expect([...opened.keys()]).toEqual(['a'])
  timers.shift()?.()
  expect([...opened.keys()]).toEqual(['a', 'b'])
  // A picture whose sprite has left is still searched for, while there is room.
  store.use(['a'])
  runSearches()
  expect([...opened.keys()]).toEqual(['a', 'b', 'c'])
})

it('beyond the limit the least recently used picture is dropped, those in use last', async () => {
  const { store, on, addresses, setState, runSearches } = fakeStore()
  const named = (n: number) => `cid of ${n}`
  for (let n = 0; n < PICTURES_MAX; n++) {
    store.use([named(0), named(n)])
    runSearches()
    setState(named(n), held(`${n}`))
    await shown(store, named(n))
  }
  store.use([named(0), 'cid of new'])
  runSearches()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has(named(0)) && on.has('cid of new')).toBe(true)
  expect(on.has(named(1))).toBe(false)
  expect(addresses.size).toBe(PICTURES_MAX - 1)
})

it('many received pictures do not displace own ones, and the dropped ones show a reason', async () => {
  const { store, on, opened, runSearches } = fakeStore()
  const mine = await store.add({ bytes: pictureOf('mine'), isMine: true })
  const rain = Array.from({ length: 140 }, (_, n) => `rain ${n}`)
  store.use([mine, ...rain])
  runSearches()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has('cid of mine')).toBe(true)
  expect(opened.size).toBe(PICTURES_MAX - 1)
  expect(store.state('rain 0').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('too many') })
  expect(store.state('rain 139').value.kind).toBe('coming')
  // Movement of the same sprites changes nothing.
  const before = [...on]
  store.use([mine, ...rain])
  runSearches()
  expect([...on]).toEqual(before)
})

it('beyond their limit the least recently used own picture is dropped', async () => {
  const { store, on } = fakeStore()
  for (let n = 0; n <= PICTURES_OF_MINE_MAX; n++) await store.add({ bytes: pictureOf(`${n}`), isMine: true })
  expect(on.size).toBe(PICTURES_OF_MINE_MAX)
  expect(on.has('cid of 0')).toBe(false)
})

it('a reload keeps own pictures and those in use, and searches for no stored picture', async () => {
  const before = fakeStore()
  await before.store.add({ bytes: pictureOf('mine'), isMine: true })
  before.store.use(['cid of used', 'cid of coming'])
  before.runSearches()
  before.setState('cid of used', held('used'))
  await shown(before.store, 'cid of used')
  const kept = before.store.saved()
  expect(kept.map(({ isMine }) => isMine)).toEqual([true, false])

  const { store, on, opened, runSearches } = fakeStore()
  const restored = store.restore([...kept, { bytes: pictureOf('bad'), isMine: true }])
  store.use(['cid of used', 'cid of coming'])
  expect(opened.size).toBe(0)
  await restored
  runSearches()
  expect([...opened.keys()]).toEqual(['cid of coming'])
  expect([...on].sort()).toEqual(['cid of coming', 'cid of mine', 'cid of used'])
  expect(store.state('cid of used').value.kind).toBe('shown')
})

it('a store that is closed while a picture loads shows and shares nothing', async () => {
  const { store, on, addresses, setState } = fakeStore()
  store.use(['cid of cat'])
  setState('cid of cat', held('cat'))
  const holding = store.add({ bytes: pictureOf('dog'), isMine: true })
  store.close()
  await holding
  await new Promise((resolve) => setImmediate(resolve))
  expect([on.size, addresses.size]).toEqual([0, 0])
})
