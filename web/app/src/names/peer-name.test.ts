import { describe, expect, it } from 'vitest'
import { USER_LENGTH_MAX } from '../chat/room.ts'
import { peers } from '../messages/peers.ts'
import { inventName, peerName } from './peer-name.ts'

describe('a name of a peer', () => {
  it('is an adjective and an animal, the same for the same id', () => {
    expect(peerName('00ea3c5d9f1b2e47')).toBe(peerName('00ea3c5d9f1b2e47'))
    expect(peerName('00ea3c5d9f1b2e47')).toMatch(/^[A-Z][a-z]+ [a-z]+$/)
  })

  it('differs between ids that begin alike, as often as there are names', () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => `00ea${i.toString(16).padStart(12, '0')}`)
    const all = peers('adjectives').split(' ').length * peers('animals').split(' ').length
    expect(new Set(ids.map(peerName)).size).toBeGreaterThan(all * 0.95)
    expect(new Set(ids.slice(0, 20).map(peerName)).size).toBe(20)
  })

  it('has words that occur once and fit into the field of the chat', () => {
    for (const list of ['adjectives', 'animals'] as const) {
      const words = peers(list).split(' ')
      expect(new Set(words).size).toBe(words.length)
      expect(Math.max(...words.map(({ length }) => length))).toBeLessThan(USER_LENGTH_MAX / 2)
    }
  })

  it('can be invented without an id', () => {
    expect(new Set(Array.from({ length: 20 }, inventName)).size).toBeGreaterThan(10)
  })
})
