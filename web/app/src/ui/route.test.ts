import { describe, expect, it } from 'vitest'
import { readKey } from '@watchfire/pages/encryption'
import { parseKeyInput } from './parse-typed-key.ts'
import { chatAddress, fileFragment, isFileFragment, pageAddress, parseRoute } from './route.ts'

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

describe('the key of a private page', () => {
  const key = 'AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09o'

  it('stays in the fragment', () => {
    const address = new URL(pageAddress(CID, 'a & b.md', key), 'http://host')
    expect(address.pathname + address.search).toBe(`/p/${CID}`)
    expect(parseRoute(address.pathname, address.hash)).toEqual({ kind: 'page', cid: CID, filename: 'a & b.md', file: null, key })
    const fragment = fileFragment('trip/day 1.md', key)
    expect(isFileFragment(fragment)).toBe(true)
    expect(parseRoute(`/p/${CID}`, fragment)).toMatchObject({ file: 'trip/day 1.md', key })
  })

  /** The result of a fragment: the right key, a key that opens nothing, or a page without a key. */
  const opens = (fragment: string): 'right' | 'another' | 'invalid' | 'none' => {
    const url = new URL(`/p/${CID}${fragment}`, 'http://host')
    const route = parseRoute(url.pathname, url.hash)
    if (route.kind !== 'page' || route.cid !== CID) throw new Error(`not the page: ${fragment}`)
    if (route.key === null) return 'none'
    if (readKey(route.key) === null) return 'invalid'
    return route.key === key ? 'right' : 'another'
  }
  const other = `B${key.slice(1)}`
  const script = '%3Cimg%20src%3Dx%20onerror%3DglobalThis.pwned%3D1%3E'
  it.each([
    [`#key=${key}`, 'right'],
    [`#key=${key}&key=x`, 'right'],
    [`#filename=..%2F..%2Fetc%2Fpasswd&key=${key}`, 'right'],
    [`#key=${key}&filename=${script}`, 'right'],
    [`#key=${key}&file=..%2F..%2Fx&file=y`, 'right'],
    [`#key=${other}`, 'another'],
    [`#key=${key.slice(0, 42)}`, 'invalid'],
    [`#key=${key}A`, 'invalid'],
    [`#key=${key.slice(0, 42)}%00`, 'invalid'],
    ['#key=%F0%9F%94%A5', 'invalid'],
    ['#key=%%%', 'invalid'],
    [`#key=${'A'.repeat(100_000)}`, 'invalid'],
    ['#key=<script>globalThis.pwned=1</script>', 'invalid'],
    [`#key=x&key=${key}`, 'invalid'],
    ['', 'none'],
    ['#', 'none'],
    ['#key=', 'none'],
    [`#KEY=${key}`, 'none'],
    [`?key=${key}#filename=${'x'.repeat(9000)}`, 'none'],
  ] as const)('is read from the fragment %.60s: %s', (fragment, expected) => {
    expect(opens(fragment)).toBe(expected)
  })

  it('is found in any pasted link or key', () => {
    for (const text of [
      key,
      ` ${key}\n`,
      `https://host/p/${CID}#key=${key}&filename=x`,
      `watchfire:${CID}?peer=/ip4/1#filename=x&key=${key}`,
      `#key=${key}`,
    ]) {
      expect(parseKeyInput(text)).toBe(key)
    }
    const link = `https://host/p/${CID}#key=${key}`
    for (const text of [
      `${key}.`,
      `“${key}”`,
      `key: ${key}`,
      `key=${key}`,
      `${link})`,
      `<${link}>`,
      `see ${link} please`,
      `${link}&filename=a.txt.`,
    ]) {
      expect(parseKeyInput(text)).toBe(key)
    }
    expect(parseKeyInput(`https://host/p/${CID}`)).toBe(null)
    expect(parseKeyInput('hello')).toBe(null)
  })

  it('is absent from the address of a public page', () => {
    expect(pageAddress(CID, null)).toBe(`/p/${CID}`)
    expect(fileFragment('a.md')).toBe('#file=a.md')
    expect(isFileFragment('#heading')).toBe(false)
  })
})
