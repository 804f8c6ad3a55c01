import { describe, expect, it } from 'vitest'
import { nameOf, spriteNamed } from './name.ts'

describe('a sprite', () => {
  it('with a picture is called what its thrower called it, without what would disturb the words beside it', () => {
    expect(nameOf({ sprite: 'my cat', picture: 'bafk' })).toBe('my cat')
    expect(nameOf({ sprite: '\u202etac\u0007 ', picture: 'bafk' })).toBe('tac')
    expect(nameOf({ sprite: ' \u200f', picture: 'bafk' })).toBe('A picture')
  })

  it('without one is a drawing, or a stranger', () => {
    expect(nameOf({ sprite: 'cat', picture: null })).toBe('Cat')
    expect(nameOf({ sprite: 'dragon', picture: null })).toBe('Stranger')
  })
})

describe('a file', () => {
  it('names its sprite, without its ending', () => {
    expect(spriteNamed('holiday in Rome.jpeg')).toBe('holiday in Rome')
    expect(spriteNamed('.png')).toBe('picture')
    expect(spriteNamed('\u0000\ud800')).toBe('\ufffd')
  })

  it('with a long name gives as much of it as a throw may carry, and no half letter', () => {
    expect(spriteNamed(`${'é'.repeat(40)}.png`)).toBe('é'.repeat(32))
    expect(spriteNamed(`${'🔥'.repeat(40)}.png`)).toBe('🔥'.repeat(16))
  })
})
