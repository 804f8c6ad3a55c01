import { describe, expect, it } from 'vitest'
import { MessageWriter, utf8, type Bytes } from '@watchfire/pages/content'
import { after, BEGINNING, decodeMessage, encodeMessage, merge, mostOf, numbersOf, tellsMore, type History } from './history.ts'

/** The history of a page that had these people in turn, each for 10 seconds. */
const of = (...people: number[]) => people.reduce((history, now) => after(history, 10, now), BEGINNING)
const message = (bytes: Bytes) => new MessageWriter().message(1, new MessageWriter()).bytes(1003, bytes).finish()
const said = (text: string) => decodeMessage(message(utf8(text)))

describe('the history of a page', () => {
  it('has the most people of each five seconds, and none where nothing is known', () => {
    expect(numbersOf(of(1, 3, 0))).toEqual([30, 1, 1, 3, 3, 3, 0, 0])
    expect(mostOf(of(1, 3, 2))).toBe(3)
  })

  it('has at most 64 buckets, whose width doubles', () => {
    const hour = after(after(BEGINNING, 600, 1), 3000, 9)
    expect(hour.people).toHaveLength(46)
    expect(hour.people.slice(6, 9)).toEqual([1, 9, 9])
    let history = BEGINNING
    for (let day = 0; day < 400; day++) {
      history = after(history, 86_400, day)
      expect(history.people.length).toBeLessThanOrEqual(64)
    }
    expect(mostOf(history)).toBe(399)
    expect(decodeMessage(encodeMessage(history))).toEqual(history)
  })

  it('stays the same when it is read often', () => {
    let often = BEGINNING
    for (let i = 0; i < 4000; i++) often = after(often, 0.25, i < 2000 ? 1 : 2)
    expect(often).toEqual(after(after(BEGINNING, 500, 1), 500, 2))
  })

  it('has all that two tabs know, from the older beginning', () => {
    const author = of(1, 2, 5, 2, 2, 2)
    const late = of(3, 1)
    for (const both of [merge(author, late), merge(late, author)]) {
      expect(both).toEqual({ age: 60, people: [1, 1, 2, 2, 5, 5, 5, 2, 3, 3, 3, 2, 2] })
    }
    // A bucket of the older page is ten minutes wide.
    const old = after(BEGINNING, 30_000, 7)
    expect(merge(old, late)).toEqual(old)
    expect(merge(after(old, 20, 0), of(8, 8)).people.at(-1)).toBe(8)
  })

  it('tells more than another one with an older beginning or more people, and not by a part of a second', () => {
    const history = of(1, 2)
    const whole = { ...history, age: 20 }
    expect(tellsMore({ ...history, age: 20.9 }, whole)).toBe(false)
    expect(tellsMore(whole, { ...history, age: 20.9 })).toBe(false)
    expect(tellsMore(of(1, 2, 2), whole)).toBe(true)
    expect(tellsMore(whole, of(1, 2, 2))).toBe(false)
    expect(tellsMore(of(1, 3), whole)).toBe(true)
    expect(tellsMore(whole, of(1, 3))).toBe(false)
  })

  it('is the same for all once each has told the others', () => {
    const tabs: History[] = [of(4, 1), of(1, 2, 3, 2, 1), of(9)]
    const [first, ...others] = tabs.map((_, i) => tabs.slice(i).concat(tabs.slice(0, i)).reduce(merge))
    for (const other of others) expect([tellsMore(other, first ?? BEGINNING), tellsMore(first ?? BEGINNING, other)]).toEqual([false, false])
  })
})

describe('a message of a peer', () => {
  it('is a list of numbers: the age, and the people of each bucket', () => {
    expect(said('[12,1,2,3]')).toEqual({ age: 12, people: [1, 2, 3] })
  })

  it.each([
    '',
    'nonsense',
    'null',
    '{}',
    '[]',
    '[1]',
    '["12",1,2,3]',
    '[12,1,2,"3"]',
    '[12,1,2,null]',
    '[12,1,2,[3]]',
    '[12.5,1,2,3]',
    '[12,1,2,3.5]',
    '[-12,1,2,3]',
    '[12,1,-2,3]',
    '[12,NaN,2,3]',
    '[12,1,2,1e999]',
    '[12,1,2,9007199254740992]',
    '[12,1,2,1000000001]',
    '[9007199254740992,1]',
    '[12,1,2]',
    '[12,1,2,3,4]',
    '[0]',
    `[12${',1'.repeat(10_000)}]`,
    `[50000${',1'.repeat(10_000)}]`,
    `[12,1,2,3]${' '.repeat(1024)}`,
    // Older than ten years, with as many buckets as that age has.
    `[315360001${',1'.repeat(61)}]`,
  ])('is ignored when it is not valid: %s', (text) => expect(said(text)).toBeNull())

  it('is ignored when it is not UTF-8 or has no history', () => {
    expect(decodeMessage(message(Uint8Array.of(0x5b, 0xff, 0x5d)))).toBeNull()
    expect(decodeMessage(Uint8Array.of(0x0a, 0, 0xda, 0x3e, 0xff))).toBeNull()
    expect(decodeMessage(Uint8Array.of(0x0a, 0))).toBeNull()
    expect(decodeMessage(new Uint8Array())).toBeNull()
  })

  it('may claim the most that is allowed, and is then bounded', () => {
    const oldest = said(`[315360000${',1000000000'.repeat(61)}]`)
    expect(oldest).not.toBeNull()
    const both = after(merge(of(1), oldest ?? BEGINNING), 1e9, 1)
    expect(both.people.length).toBeLessThanOrEqual(64)
    expect(decodeMessage(encodeMessage(both))).toEqual(both)
  })
})
