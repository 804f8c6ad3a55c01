import { describe, expect, it } from 'vitest'
import { nameOf, spriteNamed } from './name.ts'

describe('a sprite', () => {
  it('with a picture has the name that its thrower chose, without control characters', () => {
    expect(nameOf({ sprite: 'my cat', picture: 'bafk' })).toBe('my cat')
    expect(nameOf({ sprite: '\u202etac\u0007 ', picture: 'bafk' })).toBe('tac')
    expect(nameOf({ sprite: ' \u200f', picture: 'bafk' })).toBe('A picture')
  })

  it('without a picture has the name of its drawing', () => {
    expect(nameOf({ sprite: 'cat', picture: null })).toBe('Cat')
    expect(nameOf({ sprite: 'dragon', picture: null })).toBe('Unknown sprite')
  })
})

describe('a file', () => {
  it('names its sprite, without the extension', () => {
    expect(spriteNamed('holiday in Rome.jpeg')).toBe('holiday in Rome')
    expect(spriteNamed('.png')).toBe('picture')
    expect(spriteNamed('\u0000\ud800')).toBe('\ufffd')
  })

  it('with a long name is shortened to whole characters', () => {
    expect(spriteNamed(`${'é'.repeat(40)}.png`)).toBe('é'.repeat(32))
    expect(spriteNamed(`${'🔥'.repeat(40)}.png`)).toBe('🔥'.repeat(16))
  })
})
