import { describe, expect, it } from 'vitest'
import { readVectors } from '../../test/vectors.ts'
import { parseCid } from '../content/index.ts'
import { linkedName } from './names.ts'
import { pageOfLink, parsePageLink } from './page-link.ts'
import { readNeighbours, serversOfLink, withServers } from './servers.ts'

interface Accepted {
  about: string
  text: string
  cid: string
  server?: string
  path?: string
  filename?: string
  key?: string
  at?: string[]
}

const links = readVectors<{ accepted: Accepted[]; refused: { about: string; text: string }[] }>('links.json')
const ORIGIN = 'https://example.org'

describe('a link', () => {
  it.each(links.accepted)('may be $about', ({ text, cid, server = ORIGIN, path, filename, key, at = [] }) => {
    expect(serversOfLink(text, server)).toEqual(at)
    expect(parsePageLink(text, server)).toEqual({
      cid: parseCid(cid).text,
      filename: filename ?? null,
      file: path ?? null,
      key: key ?? null,
    })
  })

  it.each(links.refused)('is not $about', ({ text }) => {
    expect(parsePageLink(text, ORIGIN)).toBeNull()
  })

  it('to a page of another server is not one of this server', () => {
    const [page] = links.accepted.filter(({ server }) => server === ORIGIN)
    expect(parsePageLink(page?.text ?? '', 'https://elsewhere.example')).toBeNull()
  })

  it('has a bounded length', () => {
    expect(parsePageLink(`${ORIGIN}/p/${'b'.repeat(20_000)}`, ORIGIN)).toBeNull()
  })

  it('without a server has its key too', () => {
    const [{ cid } = { cid: '' }] = links.accepted
    const place = { cid, filename: 'trip', file: 'day 1.md', key: 'k'.repeat(43) }
    expect(parsePageLink(`watchfire:${cid}/day%201.md?peer=/ip4/1#key=${place.key}&filename=trip`, ORIGIN)).toEqual(place)
    expect(parsePageLink(`${cid}#key=${place.key}.`, ORIGIN)).toEqual({ ...place, filename: null, file: null })
  })

  it('that cannot be opened says why', () => {
    const [{ cid } = { cid: '' }] = links.accepted
    const refused = (link: string) => expect(() => pageOfLink(link, ORIGIN))
    refused(`other:/p/${cid}`).not.toThrow('null')
    refused(`https://other.example/p/${cid}#key=x`).toThrow('is of the server https://other.example, and not of https://example.org')
    for (const link of ['', 'hello', '/p/hello', 'https://other.example/', `${ORIGIN}/p/bafk`]) refused(link).toThrow('is not a CID')
    refused(`/p/bafkrgq${'a'.repeat(103)}`).toThrow('unknown hash function 0x13')
    refused(`${cid}#filename=${'x'.repeat(20_000)}`).toThrow('too long')
    expect(pageOfLink(`/p/${cid}`, ORIGIN).cid).toBe(cid)
  })
})

describe('the other servers in a link', () => {
  const servers = ['https://b.example', 'http://[2001:db8::1]:4000']

  it('are after everything else in the fragment, and replace those before', () => {
    for (const address of ['/p/bafk', '/p/bafk#key=abc&file=a%26b', '/p/bafk#at=https://c.example&filename=x']) {
      const link = withServers(ORIGIN + address, servers)
      expect(serversOfLink(link, ORIGIN)).toEqual(servers)
      expect(new URL(link).pathname + new URL(link).search).toBe('/p/bafk')
      const bare = (fragment: string) => new URLSearchParams(fragment.slice(1))
      const [before, after] = [bare(new URL(address, ORIGIN).hash), bare(new URL(link).hash)]
      for (const name of ['key', 'file', 'filename']) expect(after.get(name)).toBe(before.get(name))
    }
    expect(withServers(`${ORIGIN}/p/bafk#at=https://c.example`, [])).toBe(`${ORIGIN}/p/bafk`)
  })

  it('are three at most', () => {
    const four = ['a', 'b', 'c', 'd'].map((name) => `https://${name}.example`)
    expect(serversOfLink(withServers('/p/bafk', four), ORIGIN)).toEqual(four.slice(0, 3))
  })
})

describe('the neighbours of a server', () => {
  it('are origins, and whether they answer', () => {
    const named = [
      { server: 'https://b.example', state: 'answers', pages: 3 },
      { server: 'http://127.0.0.1:4001', state: 'silent' },
      { server: 'https://c.example/path', state: 'answers' },
      { server: 7, state: 'answers' },
      null,
    ]
    expect(readNeighbours(named)).toEqual([
      { server: 'https://b.example', answers: true },
      { server: 'http://127.0.0.1:4001', answers: false },
    ])
    for (const none of [undefined, null, 'https://b.example', {}, []]) expect(readNeighbours(none)).toEqual([])
  })
})

describe('a name in a link', () => {
  it('never contains a folder', () => {
    expect(linkedName('../../etc/passwd')).toBe('passwd')
    expect(linkedName('C:\\windows\\calc.exe')).toBe('calc.exe')
    for (const none of [null, '', '..', 'a/', '\u202e']) expect(linkedName(none)).toBeNull()
  })

  it('cannot contain hidden or direction-changing characters', () => {
    expect(linkedName('photo\u202egnp.exe')).toBe('photognp.exe')
    expect(linkedName('a\u0000b\n.txt')).toBe('ab.txt')
  })

  it('has a bounded length, and keeps its extension', () => {
    expect(linkedName('x'.repeat(10_000))).toHaveLength(255)
    expect(linkedName(`${'x'.repeat(300)}.pdf`)).toBe(`${'x'.repeat(251)}.pdf`)
  })
})
