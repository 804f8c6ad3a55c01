import { signal } from '@preact/signals'
import { expect, it, vi } from 'vitest'
import type { PageState } from '../ui/site.ts'
import { Album } from './album.ts'
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
  const album = new Album({
    kindle: (cid) => Promise.resolve({ close: join(cid) }),
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
  return { album, on, sought, addresses, timers, come, allLookedFor }
}

const shown = (album: Album, cid: string) => vi.waitFor(() => expect(album.look(cid).value.kind).toBe('shown'))

it('a picture that a sprite brings is looked for, shown, and held when the sprite has gone', async () => {
  const { album, on, addresses, come } = pretended()
  album.use(['cid of cat'])
  expect(album.look('cid of cat').value).toEqual({ kind: 'coming' })
  come('cid of cat', held('cat'))
  await shown(album, 'cid of cat')
  expect(addresses.size).toBe(1)
  album.use([])
  expect([...on]).toEqual(['cid of cat'])
  album.close()
  expect([on.size, addresses.size]).toEqual([0, 0])
})

it('a picture that nobody has is missing with a sentence, and shown as soon as somebody has it', async () => {
  const { album, come } = pretended()
  album.use(['cid of cat'])
  come('cid of cat', { kind: 'waiting', bytes: 0, total: null })
  expect(album.look('cid of cat').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('Nobody') })
  come('cid of cat', held('cat'))
  await shown(album, 'cid of cat')
})

it('what is no picture, a folder, or too large is not shown, not held, and not looked for again', async () => {
  const folder: PageState = { kind: 'held', content: { kind: 'directory', files: [] } }
  const large = { kind: 'held', content: { kind: 'file', size: PICTURE_BYTES_MAX + 1, blob: () => Promise.reject(new Error('read')) } } as const
  for (const state of [held('bad cat'), folder, large]) {
    const { album, on, sought, addresses, come, allLookedFor } = pretended()
    album.use(['cid of cat'])
    come('cid of cat', state)
    await vi.waitFor(() => expect(album.look('cid of cat').value.kind).toBe('missing'))
    expect([on.size, addresses.size]).toEqual([0, 0])
    sought.clear()
    album.use(['cid of cat'])
    allLookedFor()
    expect(sought.size).toBe(0)
  }
})

it('a picture of mine is shown and held at once', async () => {
  const { album, on, sought } = pretended()
  const cid = await album.hold({ bytes: pictureOf('dog'), isMine: true })
  album.use([cid])
  expect(album.look(cid).value.kind).toBe('shown')
  expect([[...on], sought.size]).toEqual([['cid of dog'], 0])
  await expect(album.hold({ bytes: pictureOf('bad'), isMine: true })).rejects.toThrow('It is none.')
})

it('a picture that is looked for and then dropped here is held, on its topic once', async () => {
  const { album, on } = pretended()
  album.use(['cid of cat'])
  await album.hold({ bytes: pictureOf('cat'), isMine: true })
  await shown(album, 'cid of cat')
  expect([...on]).toEqual(['cid of cat'])
})

it('searches begin one after the other', () => {
  const { album, sought, timers, allLookedFor } = pretended()
  album.use(['a', 'b', 'c'])
  expect([...sought.keys()]).toEqual(['a'])
  timers.shift()?.()
  expect([...sought.keys()]).toEqual(['a', 'b'])
  // What left meanwhile is still worth having: it is looked for like the others, while there is room.
  album.use(['a'])
  allLookedFor()
  expect([...sought.keys()]).toEqual(['a', 'b', 'c'])
})

it('over the bound the least recently used is given up, those of sprites that are here last', async () => {
  const { album, on, addresses, come, allLookedFor } = pretended()
  const named = (n: number) => `cid of ${n}`
  for (let n = 0; n < PICTURES_MAX; n++) {
    album.use([named(0), named(n)])
    allLookedFor()
    come(named(n), held(`${n}`))
    await shown(album, named(n))
  }
  album.use([named(0), 'cid of new'])
  allLookedFor()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has(named(0)) && on.has('cid of new')).toBe(true)
  expect(on.has(named(1))).toBe(false)
  expect(addresses.size).toBe(PICTURES_MAX - 1)
})

it('a rain of strange pictures takes no room of mine, and the sprites of those given up say so', async () => {
  const { album, on, sought, allLookedFor } = pretended()
  const mine = await album.hold({ bytes: pictureOf('mine'), isMine: true })
  const rain = Array.from({ length: 140 }, (_, n) => `rain ${n}`)
  album.use([mine, ...rain])
  allLookedFor()
  expect(on.size).toBe(PICTURES_MAX)
  expect(on.has('cid of mine')).toBe(true)
  expect(sought.size).toBe(PICTURES_MAX - 1)
  expect(album.look('rain 0').value).toMatchObject({ kind: 'missing', sentence: expect.stringContaining('too many') })
  expect(album.look('rain 139').value.kind).toBe('coming')
  // The same sprites, moving about, change nothing.
  const before = [...on]
  album.use([mine, ...rain])
  allLookedFor()
  expect([...on]).toEqual(before)
})

it('of mine too, the least recently used is given up', async () => {
  const { album, on } = pretended()
  for (let n = 0; n <= PICTURES_OF_MINE_MAX; n++) await album.hold({ bytes: pictureOf(`${n}`), isMine: true })
  expect(on.size).toBe(PICTURES_OF_MINE_MAX)
  expect(on.has('cid of 0')).toBe(false)
})

it('over a reload mine are kept, and of others what sprites here show; then nothing is looked for in vain', async () => {
  const before = pretended()
  await before.album.hold({ bytes: pictureOf('mine'), isMine: true })
  before.album.use(['cid of used', 'cid of coming'])
  before.allLookedFor()
  before.come('cid of used', held('used'))
  await shown(before.album, 'cid of used')
  const kept = before.album.kept()
  expect(kept.map(({ isMine }) => isMine)).toEqual([true, false])

  const { album, on, sought, allLookedFor } = pretended()
  const restored = album.restore([...kept, { bytes: pictureOf('bad'), isMine: true }])
  album.use(['cid of used', 'cid of coming'])
  expect(sought.size).toBe(0)
  await restored
  allLookedFor()
  expect([...sought.keys()]).toEqual(['cid of coming'])
  expect([...on].sort()).toEqual(['cid of coming', 'cid of mine', 'cid of used'])
  expect(album.look('cid of used').value.kind).toBe('shown')
})

it('an album that is closed while a picture comes shows and holds nothing', async () => {
  const { album, on, addresses, come } = pretended()
  album.use(['cid of cat'])
  come('cid of cat', held('cat'))
  const holding = album.hold({ bytes: pictureOf('dog'), isMine: true })
  album.close()
  await holding
  await new Promise((resolve) => setImmediate(resolve))
  expect([on.size, addresses.size]).toEqual([0, 0])
})
