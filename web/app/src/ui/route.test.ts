import { describe, expect, it } from 'vitest'
import { fileFragment, pageAddress } from '@watchfire/pages/addresses'
import { chatAddress, parseRoute } from './route.ts'

const CID = 'bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'

describe('a location', () => {
  it('is home at the root', () => {
    expect(parseRoute('/', '')).toEqual({ kind: 'home' })
    expect(parseRoute('', '#anything')).toEqual({ kind: 'home' })
  })

  it('is a page under /p, with or without a trailing slash', () => {
    const page = { kind: 'page', cid: CID, filename: null, file: null, key: null }
    expect(parseRoute(`/p/${CID}`, '')).toEqual(page)
    expect(parseRoute(`/p/${CID}/`, '')).toEqual(page)
  })

  it('is one page in capitals and in small letters, so that a tab does not count it twice', () => {
    expect(parseRoute(`/p/${CID.toUpperCase()}`, '')).toMatchObject({ cid: CID })
    expect(parseRoute(`/p/${CID.toUpperCase()}).`, '')).toMatchObject({ cid: CID })
    for (const text of ['QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH', 'BAFKREIgh'])
      expect(parseRoute(`/p/${text}`, '')).toMatchObject({ cid: text })
  })

  it('has the file name in its fragment', () => {
    const route = parseRoute(`/p/${CID}`, '#filename=my%20notes.md')
    expect(route).toEqual({ kind: 'page', cid: CID, filename: 'my notes.md', file: null, key: null })
  })

  it('may open one file of a directory', () => {
    const route = parseRoute(`/p/${CID}`, fileFragment('trip/day 1.md'))
    expect(route).toMatchObject({ cid: CID, file: 'trip/day 1.md' })
  })

  it('passes on an invalid CID, so that the page can reject it', () => {
    expect(parseRoute('/p/%zz', '')).toEqual({ kind: 'page', cid: '%zz', filename: null, file: null, key: null })
  })

  it('is unknown elsewhere', () => {
    expect(parseRoute('/p', '')).toEqual({ kind: 'unknown', path: '/p' })
    expect(parseRoute('/p/a/b', '')).toEqual({ kind: 'unknown', path: '/p/a/b' })
    expect(parseRoute('/admin', '')).toEqual({ kind: 'unknown', path: '/admin' })
  })

  it('is a grid of sprites under /sprites, with a restricted name', () => {
    expect(parseRoute('/sprites/meadow-2', '')).toEqual({ kind: 'sprites', grid: 'meadow-2' })
    for (const path of ['/sprites', '/sprites/a/b', '/sprites/%20', `/sprites/${'x'.repeat(65)}`]) {
      expect(parseRoute(path, '').kind).toBe('unknown')
    }
  })

  it('names a room, by default the lobby', () => {
    expect(parseRoute('/chat', '')).toEqual({ kind: 'chat', room: 'lobby' })
    expect(parseRoute('/chat', '#room=%20')).toEqual({ kind: 'chat', room: 'lobby' })
    expect(parseRoute('/chat', '#room=kitchen')).toEqual({ kind: 'chat', room: 'kitchen' })
    expect(parseRoute('/chat', `#room=${'x'.repeat(999)}`)).toMatchObject({ room: 'x'.repeat(64) })
    // Half an emoji could not be written into an address, and hidden characters would make two rooms look alike.
    const cut = parseRoute('/chat', `#room=${encodeURIComponent(`${'x'.repeat(63)}🔥`)}`)
    expect(cut).toEqual({ kind: 'chat', room: 'x'.repeat(63) })
    expect(parseRoute('/chat', '#room=tea%E2%80%8B%00')).toEqual({ kind: 'chat', room: 'tea' })
  })
})

describe('an address', () => {
  it('is unchanged after parsing and formatting', () => {
    const address = new URL(pageAddress(CID, 'a & b#1.md'), 'http://localhost')
    const route = parseRoute(address.pathname, address.hash)
    expect(route).toEqual({ kind: 'page', cid: CID, filename: 'a & b#1.md', file: null, key: null })
    const chat = new URL(chatAddress('tea & cake'), 'http://localhost')
    expect(parseRoute(chat.pathname, chat.hash)).toEqual({ kind: 'chat', room: 'tea & cake' })
  })

  it('has no fragment when the file has no name', () => {
    expect(pageAddress(CID, null)).toBe(`/p/${CID}`)
  })
})
