import { describe, expect, it } from 'vitest'
import { parseCid } from '@watchfire/pages/content'
import { readVectors } from '../../../packages/pages/test/vectors.ts'
import { parsePageLink } from './page-link.ts'

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
      kind: 'page',
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
})
