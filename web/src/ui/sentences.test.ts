import { describe, expect, it } from 'vitest'
import { heldSentence, peersSentence, watchingSentence } from './sentences.ts'
import { shell } from '../words/shell.ts'

const counts = (watching: number, holders: number, partial: number) => ({ watching, holders, partial })

describe('what keeps a page alive', () => {
  it('is you alone, and you are told what closing does', () => {
    expect(heldSentence(counts(1, 1, 0), 'all')).toBe(
      'You are the only one holding this page: when you close this tab it is gone.',
    )
  })

  it('is you alone until a visitor has it all', () => {
    expect(heldSentence(counts(3, 1, 1), 'all')).toBe(
      'You hold the only full copy: keep this tab open until somebody else has it all.',
    )
  })

  it('is everyone who has all of it', () => {
    expect(heldSentence(counts(3, 3, 0), 'all')).toBe('Held by 3 tabs, yours among them.')
    expect(heldSentence(counts(4, 3, 1), 'all')).toBe(
      'Held by 3 tabs, yours among them; 1 has only part.',
    )
    expect(heldSentence(counts(6, 1, 2), 'some')).toBe('Held by 1 tab; 2 have only part.')
  })

  it('may be nodes, which are no tabs', () => {
    const nodes = (holders: number, partial = 0) => ({ watching: holders + partial, holders, partial })
    expect(heldSentence({ ...counts(3, 3, 0), nodes: nodes(1) }, 'all')).toBe('Held by 2 tabs and 1 node, your tab among them.')
    expect(heldSentence({ ...counts(2, 1, 0), nodes: nodes(1) }, 'some')).toBe('Held by 1 node.')
    expect(heldSentence({ ...counts(5, 3, 2), nodes: nodes(2) }, 'some')).toBe('Held by 1 tab and 2 nodes; 2 have only part.')
    expect(heldSentence({ ...counts(3, 0, 3), nodes: nodes(0, 1) }, 'some')).toBe('Nobody has all of it. A part is with 1 tab and 1 node.')
    // The server may be behind with its count.
    expect(heldSentence({ ...counts(3, 1, 0), nodes: nodes(2) }, 'some')).toBe('Held by 1 node.')
    expect(watchingSentence({ ...counts(3, 3, 0), nodes: nodes(1) })).toBe('2 people are watching, and 1 node')
    expect(watchingSentence({ ...counts(3, 3, 0), nodes: nodes(2) })).toBe('Only you are here, and 2 nodes')
  })

  it('is nobody', () => {
    expect(heldSentence(counts(1, 0, 0), 'none')).toBe('Nobody has this page right now.')
    expect(heldSentence(counts(1, 0, 1), 'some')).toBe('Nobody has this page right now.')
  })

  it('may be parts in several tabs', () => {
    expect(heldSentence(counts(3, 0, 1), 'none')).toBe('Nobody has all of it: 1 tab has a part.')
    expect(heldSentence(counts(3, 0, 3), 'some')).toBe('Nobody has all of it: 2 tabs have a part.')
  })
})

describe('a count of people', () => {
  it('speaks of one person as one person', () => {
    expect(watchingSentence(counts(1, 1, 0))).toBe('Only you are here')
    expect(watchingSentence(counts(2, 1, 0))).toBe('2 people are watching')
    expect(shell('visitors', { count: 1 })).toBe('Only you are here now')
    expect(shell('visitors', { count: 12 })).toBe('12 people here now')
    expect(peersSentence(1)).toBe('from 1 person')
    expect(peersSentence(4)).toBe('from 4 people')
    expect(peersSentence(4, 1)).toBe('from 4 people, 1 of them directly')
    expect(peersSentence(1, 0, 1)).toBe('from 1 node')
    expect(peersSentence(4, 1, 2)).toBe('from 2 people, 1 of them directly, and from 2 nodes')
    expect(peersSentence(1, 1)).toBe('directly from 1 person')
  })
})
