import { describe, expect, it } from 'vitest'
import { readVectors } from '../../test/vectors.ts'
import { parseCid } from '../content/index.ts'
import { linkedName } from './names.ts'
import { pageOfLink, parsePageLink } from './page-link.ts'

interface Accepted {
  about: string
  text: string
  cid: string
  server?: string
  path?: string
  filename?: string
  key?: string
}

const links = readVectors<{ accepted: Accepted[]; refused: { about: string; text: string }[] }>('links.json')
const ORIGIN = 'https://example.org'

describe('a link', () => {
  it.each(links.accepted)('may be $about', ({ text, cid, path, filename, key }) => {
    expect(parsePageLink(text, ORIGIN)).toEqual({
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
