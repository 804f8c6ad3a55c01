import { describe, expect, it } from 'vitest'
import { readVectors } from '../../../packages/pages/test/vectors.ts'
import { sameness, shownName } from './index.ts'
import { safeName } from './saved.ts'

interface Name {
  about: string
  name: string
  shown?: string
  saved?: string
}

const vectors = readVectors<{ names: Name[]; same: [string, string][]; different: [string, string][] }>('names.json')

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
