import { describe, expect, it } from 'vitest'
import { heldSentence, peersSentence, watchingSentence } from './sentences.ts'
import { shell } from '../messages/shell.ts'

const counts = (watching: number, holders: number, partial: number) => ({ watching, holders, partial })

describe('the sentence about the holders of a page', () => {
  it('warns a single holder about closing the tab', () => {
    expect(heldSentence(counts(1, 1, 0), 'all')).toBe('Only you have this page. When you close this tab, it is gone.')
  })

  it('warns the only complete holder until a visitor has everything', () => {
    expect(heldSentence(counts(3, 1, 1), 'all')).toBe('Only you have the whole page. Keep this tab open until somebody else has it all.')
  })

  it('counts every complete holder', () => {
    expect(heldSentence(counts(3, 3, 0), 'all')).toBe('Held by 3 tabs, including yours.')
    expect(heldSentence(counts(4, 3, 1), 'all')).toBe('Held by 3 tabs, including yours; 1 has only a part.')
    expect(heldSentence(counts(6, 1, 2), 'some')).toBe('Held by 1 tab; 2 have only parts.')
  })

  it('counts nodes apart from tabs', () => {
    const nodes = (holders: number, partial = 0) => ({ watching: holders + partial, holders, partial })
    expect(heldSentence({ ...counts(3, 3, 0), nodes: nodes(1) }, 'all')).toBe('Held by 2 tabs and 1 node, including your tab.')
    expect(heldSentence({ ...counts(2, 1, 0), nodes: nodes(1) }, 'some')).toBe('Held by 1 node.')
    expect(heldSentence({ ...counts(5, 3, 2), nodes: nodes(2) }, 'some')).toBe('Held by 1 tab and 2 nodes; 2 have only parts.')
    expect(heldSentence({ ...counts(3, 0, 3), nodes: nodes(0, 1) }, 'some')).toBe(
      'Nobody has the whole page. Held in part by 1 tab and 1 node.',
    )
    // The server's count may be late.
    expect(heldSentence({ ...counts(3, 1, 0), nodes: nodes(2) }, 'some')).toBe('Held by 1 node.')
    expect(watchingSentence({ ...counts(3, 3, 0), nodes: nodes(1) })).toBe('2 people are watching, and 1 node')
    expect(watchingSentence({ ...counts(3, 3, 0), nodes: nodes(2) })).toBe('Only you are here, and 2 nodes')
  })

  it('says that no peer has the page', () => {
    expect(heldSentence(counts(1, 0, 0), 'none')).toBe('Nobody has this page right now.')
    expect(heldSentence(counts(1, 0, 1), 'some')).toBe('Nobody has this page right now.')
  })

  it('counts tabs that have only parts', () => {
    expect(heldSentence(counts(3, 0, 1), 'none')).toBe('Nobody has the whole page: 1 tab has a part.')
    expect(heldSentence(counts(3, 0, 3), 'some')).toBe('Nobody has the whole page: 2 tabs have parts.')
  })
})

describe('a count of people', () => {
  it('uses the singular for one person', () => {
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
