import { describe, expect, it } from 'vitest'
import { haveSentence, heldSentence, lookingSentence, peersSentence } from './sentences.ts'
import { shell } from '../messages/shell.ts'

const counts = (watching: number, holders: number, partial: number) => ({ watching, holders, partial })

const nodes = (holders: number, partial = 0) => ({ watching: holders + partial, holders, partial })

describe('the line about the holders of a page', () => {
  it('counts every complete copy', () => {
    expect(haveSentence(counts(4, 3, 1), 'all')).toBe('3 people have this page')
    expect(haveSentence(counts(2, 1, 1), 'some')).toBe('1 person has this page')
    expect(haveSentence({ ...counts(3, 3, 0), nodes: nodes(1) }, 'all')).toBe('2 people and 1 computer have this page')
    expect(haveSentence({ ...counts(2, 1, 0), nodes: nodes(1) }, 'some')).toBe('1 computer has this page')
  })

  it('says when this is the only copy, or when there is none', () => {
    expect(haveSentence(counts(1, 1, 0), 'all')).toBe('Only you have this page')
    expect(haveSentence(counts(3, 1, 1), 'all')).toBe('Only you have all of this page')
    expect(haveSentence(counts(1, 0, 0), 'none')).toBe('Nobody has this page right now')
    expect(haveSentence(counts(3, 0, 1), 'none')).toBe('Nobody has all of this page right now')
  })
})

describe('the details about the holders of a page', () => {
  it('warn a single holder about closing the tab', () => {
    expect(heldSentence(counts(1, 1, 0), 'all')).toBe('When you close this tab, it is gone.')
    expect(heldSentence(counts(3, 1, 1), 'all')).toBe('Keep this tab open until somebody else has it all.')
  })

  it('count complete copies and parts', () => {
    expect(heldSentence(counts(3, 3, 0), 'all')).toBe('3 people have all of it, including you.')
    expect(heldSentence(counts(4, 3, 1), 'all')).toBe('3 people have all of it, including you. 1 person has a part.')
    expect(heldSentence(counts(6, 1, 2), 'some')).toBe('1 person has all of it. 2 people have parts.')
    expect(heldSentence(counts(3, 0, 1), 'none')).toBe('1 person has a part.')
    expect(heldSentence(counts(3, 0, 3), 'some')).toBe('2 people have parts.')
    expect(heldSentence(counts(1, 0, 0), 'none')).toBe('')
  })

  it('count nodes apart from tabs', () => {
    expect(heldSentence({ ...counts(3, 3, 0), nodes: nodes(1) }, 'all')).toBe('2 people and 1 computer have all of it, including you.')
    expect(heldSentence({ ...counts(5, 3, 2), nodes: nodes(2) }, 'some')).toBe(
      '1 person and 2 computers have all of it. 2 people have parts.',
    )
    expect(heldSentence({ ...counts(3, 0, 3), nodes: nodes(0, 1) }, 'some')).toBe('Parts are with 1 person and 1 computer.')
    // The server's count may be late.
    expect(heldSentence({ ...counts(3, 1, 0), nodes: nodes(2) }, 'some')).toBe('1 computer has all of it.')
    expect(lookingSentence({ ...counts(3, 3, 0), nodes: nodes(1) })).toBe('2 people are looking at it.')
    expect(lookingSentence({ ...counts(3, 3, 0), nodes: nodes(2) })).toBe('Only you are looking at it.')
  })
})

describe('a count of people', () => {
  it('uses the singular for one person', () => {
    expect(lookingSentence(counts(1, 1, 0))).toBe('Only you are looking at it.')
    expect(lookingSentence(counts(2, 1, 0))).toBe('2 people are looking at it.')
    expect(shell('visitors', { count: 1 })).toBe('Only you are here now')
    expect(shell('visitors', { count: 12 })).toBe('12 people here now')
    expect(peersSentence(1)).toBe('from 1 person')
    expect(peersSentence(4)).toBe('from 4 people')
    expect(peersSentence(4, 1)).toBe('from 4 people, 1 of them directly')
    expect(peersSentence(1, 0, 1)).toBe('from 1 computer')
    expect(peersSentence(4, 1, 2)).toBe('from 2 people, 1 of them directly, and from 2 computers')
    expect(peersSentence(1, 1)).toBe('directly from 1 person')
  })
})
