import { describe, expect, it } from 'vitest'
import { readVectors } from '../../../packages/pages/test/vectors.ts'
import { sameness, shownName } from './index.ts'
import { linkedName } from './linked.ts'
import { safeName } from './saved.ts'

interface Name {
  about: string
  name: string
  shown?: string
  saved?: string
}

const vectors = readVectors<{ names: Name[]; same: [string, string][]; different: [string, string][] }>('names.json')

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

describe('a name', () => {
  it.each(vectors.names)('is shown and saved safely: $about', ({ name, shown, saved }) => {
    expect(shownName(name)).toBe(shown ?? name)
    expect(safeName(name)).toBe(saved ?? name)
  })

  it('is the same with composed and decomposed accents, and with nothing else', () => {
    for (const [one, other] of vectors.same) expect(sameness(one)).toBe(sameness(other))
    for (const [one, other] of vectors.different) expect(sameness(one)).not.toBe(sameness(other))
  })
})
