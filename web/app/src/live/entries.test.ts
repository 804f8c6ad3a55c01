import { describe, expect, it } from 'vitest'
import { fileEntries, nameOf, textEntry } from './entries.ts'

const file = (path: string) => ({ path, blob: new Blob([path]) })

describe('an entry of a live page', () => {
  it('is a text, or a file if it is Markdown or too long for a text', () => {
    expect(textEntry('Kick-off', null)).toEqual({ form: 'text', name: '', text: 'Kick-off' })
    expect(textEntry('# Goal', 'entry.md')).toMatchObject({ form: 'file', name: 'entry.md' })
    expect(textEntry('ä'.repeat(32_769), null)).toMatchObject({ form: 'file', name: 'text.txt' })
  })

  it('is made of each file, and of each folder', () => {
    const entries = fileEntries([file('a.png'), file('trip/b.png'), file('c.png'), file('trip/x/d.png')])
    expect(entries.map((entry) => [entry.name, entry.form === 'file' ? entry.sources.map(({ path }) => path) : []])).toEqual([
      ['a.png', ['a.png']],
      ['trip', ['b.png', 'x/d.png']],
      ['c.png', ['c.png']],
    ])
  })

  it('has a name of at most 255 bytes, with its extension', () => {
    expect(nameOf('a.png')).toBe('a.png')
    const long = nameOf(`${'é'.repeat(200)}.jpeg`)
    expect(new TextEncoder().encode(long).length).toBeLessThanOrEqual(255)
    expect(long).toMatch(/é\.jpeg$/)
  })
})
