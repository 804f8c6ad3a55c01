import { describe, expect, it } from 'vitest'
import { isElsewhere, resolveName } from './resolve.ts'

describe('a relative reference', () => {
  it('names a file beside the one that contains it', () => {
    expect(resolveName('cat.png', 'index.md')).toBe('cat.png')
    expect(resolveName('./cat.png', 'trip/index.md')).toBe('trip/cat.png')
    expect(resolveName('../cat.png', 'trip/day/index.md')).toBe('trip/cat.png')
  })

  it('starts at the directory’s root after a slash', () => {
    expect(resolveName('/img/cat.png', 'trip/index.md')).toBe('img/cat.png')
  })

  it('is percent-decoded, without its query and fragment', () => {
    expect(resolveName('my%20cat.png?v=1#x', 'index.md')).toBe('my cat.png')
    expect(resolveName('100%.png', 'index.md')).toBeNull()
  })

  it('cannot leave the directory', () => {
    expect(resolveName('../secret', 'index.md')).toBeNull()
    expect(resolveName('a/../../secret', 'index.md')).toBeNull()
    expect(resolveName('%2e%2e/secret', 'index.md')).toBeNull()
  })

  it('that is empty names nothing', () => {
    expect(resolveName('', 'index.md')).toBeNull()
    expect(resolveName('#part', 'index.md')).toBeNull()
    expect(resolveName('.', 'index.md')).toBeNull()
  })
})

describe('a reference to another site', () => {
  it.each([
    'https://example.org/cat.png',
    '//example.org/cat.png',
    '\\\\example.org\\cat.png',
    'data:image/png;base64,AA',
    'java\nscript:alert(1)',
    ' \u0001javascript:alert(1)',
  ])('is never a file: %j', (reference) => {
    expect(isElsewhere(reference)).toBe(true)
    expect(resolveName(reference, 'index.md')).toBeNull()
  })
})
