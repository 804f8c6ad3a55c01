import { describe, expect, it } from 'vitest'
import { readKey } from '../encryption/index.ts'
import { fileFragment, isFileFragment, pageAddress, parsePageAddress } from './addresses.ts'
import { parseKeyInput } from './key-input.ts'

const CID = 'bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'

describe('the key of a private page', () => {
  const key = 'AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09o'

  it('stays in the fragment', () => {
    const address = new URL(pageAddress(CID, 'a & b.md', key), 'http://host')
    expect(address.pathname + address.search).toBe(`/p/${CID}`)
    expect(parsePageAddress(address.pathname, address.hash)).toEqual({ cid: CID, filename: 'a & b.md', file: null, key })
    const fragment = fileFragment('trip/day 1.md', key)
    expect(isFileFragment(fragment)).toBe(true)
    expect(parsePageAddress(`/p/${CID}`, fragment)).toMatchObject({ file: 'trip/day 1.md', key })
  })

  /** The result of a fragment: the right key, a key that opens nothing, or a page without a key. */
  const opens = (fragment: string): 'right' | 'another' | 'invalid' | 'none' => {
    const url = new URL(`/p/${CID}${fragment}`, 'http://host')
    const route = parsePageAddress(url.pathname, url.hash)
    if (route?.cid !== CID) throw new Error(`not the page: ${fragment}`)
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
