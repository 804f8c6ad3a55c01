import { describe, expect, it } from 'vitest'
import { keepPictures, keepSprites, keptPictures, putSprites, tokenIn } from './desk.ts'
import { World } from './world.ts'

function drawer() {
  const kept = new Map<string, string>()
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
}

describe('a tab', () => {
  it('has its sprites where they were after a reload, also in another size', () => {
    const tab = drawer()
    const before = new World(800, 600)
    before.put('fish', 400, 150)
    keepSprites(tab, 'meadow', before)
    const after = new World(400, 300)
    putSprites(tab, 'meadow', after)
    expect(after.bodies).toMatchObject([{ sprite: 'fish', x: 200, y: 75 }])
  })

  it('has them with their pictures', () => {
    const tab = drawer()
    const cid = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
    const before = new World(800, 600)
    before.put('my cat', 400, 150, cid)
    keepSprites(tab, 'meadow', before)
    const pictures = [{ bytes: Uint8Array.from([0, 127, 255]), isMine: true }, { bytes: new Uint8Array(), isMine: false }]
    keepPictures(tab, 'meadow', pictures)
    const after = new World(800, 600)
    putSprites(tab, 'meadow', after)
    expect(after.bodies).toMatchObject([{ sprite: 'my cat', picture: cid }])
    expect(keptPictures(tab, 'meadow')).toEqual(pictures)
    expect(keptPictures(tab, 'desert')).toEqual([])
  })

  it('that has no room for pictures loses them, and nothing else', () => {
    const tab = drawer()
    const picture = { bytes: new Uint8Array(8), isMine: true }
    keepPictures(tab, 'meadow', [picture])
    const full = { ...tab, setItem: () => { throw new DOMException('full', 'QuotaExceededError') } }
    expect(() => keepPictures(full, 'meadow', [picture, picture])).not.toThrow()
    expect(keptPictures(tab, 'meadow')).toEqual([])
  })

  it('does not mind what is not a list of pictures', () => {
    for (const text of ['', '{}', '[1]', '[[true,"%"]]', '[[true]]', `[[true,"${'A'.repeat(200_000)}"]]`]) {
      const tab = drawer()
      tab.setItem('sprites-pictures:meadow', text)
      expect(keptPictures(tab, 'meadow')).toEqual([])
    }
  })

  it('begins with a few', () => {
    const world = new World(800, 600)
    putSprites(drawer(), 'meadow', world)
    expect(world.bodies).toHaveLength(3)
  })

  it('does not mind what is not a list of sprites', () => {
    for (const text of ['', '{}', '[1]', '[["cat",null,1]]', '[["cat",0.5]]']) {
      const tab = drawer()
      tab.setItem('sprites-desk:meadow', text)
      const world = new World(800, 600)
      putSprites(tab, 'meadow', world)
      expect(world.bodies).toEqual([])
    }
  })

  it('remembers the token of each plane until it is told to forget it', () => {
    const tab = drawer()
    tokenIn(tab, 'meadow').write('t')
    expect(tokenIn(tab, 'meadow').read()).toBe('t')
    expect(tokenIn(tab, 'desert').read()).toBeNull()
    tokenIn(tab, 'meadow').write(null)
    expect(tokenIn(tab, 'meadow').read()).toBeNull()
  })
})
