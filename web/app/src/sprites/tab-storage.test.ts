import { describe, expect, it } from 'vitest'
import { savePictures, saveSprites, loadPictures, restoreSprites, tokenIn } from './tab-storage.ts'
import { Physics } from './physics.ts'

function storage() {
  const kept = new Map<string, string>()
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
}

describe('a tab', () => {
  it('has its sprites in the same places after a reload, also in another window size', () => {
    const tab = storage()
    const before = new Physics(800, 600)
    before.put('fish', 400, 150)
    saveSprites(tab, 'meadow', before)
    const after = new Physics(400, 300)
    restoreSprites(tab, 'meadow', after)
    expect(after.bodies).toMatchObject([{ sprite: 'fish', x: 200, y: 75 }])
  })

  it('has them with their pictures', () => {
    const tab = storage()
    const cid = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
    const before = new Physics(800, 600)
    before.put('my cat', 400, 150, cid)
    saveSprites(tab, 'meadow', before)
    const pictures = [
      { bytes: Uint8Array.from([0, 127, 255]), isMine: true },
      { bytes: new Uint8Array(), isMine: false },
    ]
    savePictures(tab, 'meadow', pictures)
    const after = new Physics(800, 600)
    restoreSprites(tab, 'meadow', after)
    expect(after.bodies).toMatchObject([{ sprite: 'my cat', picture: cid }])
    expect(loadPictures(tab, 'meadow')).toEqual(pictures)
    expect(loadPictures(tab, 'desert')).toEqual([])
  })

  it('without room for pictures loses them, and nothing else', () => {
    const tab = storage()
    const picture = { bytes: new Uint8Array(8), isMine: true }
    savePictures(tab, 'meadow', [picture])
    const full = {
      ...tab,
      setItem: () => {
        throw new DOMException('full', 'QuotaExceededError')
      },
    }
    expect(() => savePictures(full, 'meadow', [picture, picture])).not.toThrow()
    expect(loadPictures(tab, 'meadow')).toEqual([])
  })

  it('ignores an invalid list of pictures', () => {
    for (const text of ['', '{}', '[1]', '[[true,"%"]]', '[[true]]', `[[true,"${'A'.repeat(200_000)}"]]`]) {
      const tab = storage()
      tab.setItem('sprites-pictures:meadow', text)
      expect(loadPictures(tab, 'meadow')).toEqual([])
    }
  })

  it('starts with a few sprites', () => {
    const physics = new Physics(800, 600)
    restoreSprites(storage(), 'meadow', physics)
    expect(physics.bodies).toHaveLength(3)
  })

  it('ignores an invalid list of sprites', () => {
    for (const text of ['', '{}', '[1]', '[["cat",null,1]]', '[["cat",0.5]]']) {
      const tab = storage()
      tab.setItem('sprites-desk:meadow', text)
      const physics = new Physics(800, 600)
      restoreSprites(tab, 'meadow', physics)
      expect(physics.bodies).toEqual([])
    }
  })

  it('remembers the token of each grid until it is removed', () => {
    const tab = storage()
    tokenIn(tab, 'meadow').write('t')
    expect(tokenIn(tab, 'meadow').read()).toBe('t')
    expect(tokenIn(tab, 'desert').read()).toBeNull()
    tokenIn(tab, 'meadow').write(null)
    expect(tokenIn(tab, 'meadow').read()).toBeNull()
  })
})
