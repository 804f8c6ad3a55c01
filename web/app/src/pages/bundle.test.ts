import { describe, expect, it } from 'vitest'
import { indexOf } from '../files/directory.ts'
import { bundle, nameOfText } from './bundle.ts'
import { EMPTY_DRAFT, type Draft, type Writing } from './draft.ts'

const file = (path: string, text = 'x') => ({ path, blob: new Blob([text]) })
const draft = (part: Partial<Draft>): Draft => ({ ...EMPTY_DRAFT, ...part })
const paths = (part: Partial<Draft>) => bundle(draft(part)).files.map(({ path }) => path)

describe('creating a page', () => {
  it('from text makes a file named by its first words', () => {
    expect(bundle(draft({ text: '# Tea at five!\n\nBring cups.' }))).toMatchObject({
      filename: 'tea-at-five.md',
    })
    expect(bundle(draft({ text: 'hi', writing: 'text' })).filename).toBe('hi.txt')
  })

  it('from one file keeps its name', () => {
    expect(bundle(draft({ files: [file('film.mp4')] })).filename).toBe('film.mp4')
  })

  it('from text with pictures makes a directory with an index', () => {
    expect(paths({ text: 'hi', files: [file('cat.png')] })).toEqual(['index.md', 'cat.png'])
    expect(paths({ text: '<p>', writing: 'html', files: [file('a.png')] })[0]).toBe('index.html')
    expect(bundle(draft({ text: 'Hi!', files: [file('cat.png')] })).filename).toBe('hi')
  })

  it('from several files makes a directory', () => {
    expect(paths({ files: [file('a'), file('b')] })).toEqual(['a', 'b'])
    expect(bundle(draft({ files: [file('a'), file('b')] })).filename).toBeNull()
    expect(bundle(draft({ files: [file('trip/a'), file('b')] })).filename).toBeNull()
  })

  it('from a folder makes that folder the page, so that its CID is the one of the folder', () => {
    const trip = bundle(draft({ files: [file('trip/a'), file('trip/b/c')], emptyFolders: ['trip/d'] }))
    expect(trip).toMatchObject({ filename: 'trip', isDirectory: true, emptyFolders: ['d'] })
    expect(trip.files.map(({ path }) => path)).toEqual(['a', 'b/c'])
    expect(bundle(draft({ files: [file('trip/a.txt')] }))).toMatchObject({
      files: [{ path: 'a.txt' }],
      isDirectory: true,
      filename: 'trip',
    })
  })

  it('from several folders, or from a folder with something beside it, keeps the folders', () => {
    expect(paths({ files: [file('a/x'), file('b/y')] })).toEqual(['a/x', 'b/y'])
    expect(paths({ files: [file('a/x')], emptyFolders: ['b'] })).toEqual(['a/x'])
    expect(paths({ text: 'hi', files: [file('a/index.md')] })).toEqual(['index.md', 'a/index.md'])
  })

  it('opens with what the person wrote, whatever is added, and keeps the names of the files', () => {
    const writings: Writing[] = ['markdown', 'text', 'html']
    const added = [
      ['index.md'],
      ['INDEX.MD'],
      ['index.html'],
      ['readme.md'],
      ['index.htm'],
      ['index.txt'],
      ['README'],
      ['index.md', 'index.html', 'index.txt'],
      ['read-first.md'],
      ['READ-FIRST.txt', 'read-first.html', 'index.html', 'index.md'],
    ]
    for (const writing of writings)
      for (const names of added) {
        const { files } = bundle(draft({ writing, text: 'Mine.', files: names.map((name) => file(name)) }))
        const inOrder = [...files].sort((a, b) => (a.path < b.path ? -1 : 1))
        expect(indexOf(inOrder)?.path, `${writing} with ${names.join(', ')}`).toBe(files[0]?.path)
        const kept = names.filter((name) => !/^read-first/i.test(name))
        expect(files.map(({ path }) => path)).toEqual(expect.arrayContaining(kept))
        expect(new Set(files.map(({ path }) => path.toLowerCase())).size).toBe(names.length + 1)
      }
  })

  it('uses the usual name of an index while that opens first', () => {
    expect(paths({ text: 'hi', files: [file('index.html')] })).toEqual(['index.md', 'index.html'])
    expect(paths({ text: 'hi', files: [file('index.md')] })).toEqual(['read-first.md', 'index.md'])
    expect(paths({ writing: 'text', text: 'hi', files: [file('readme.md')] })).toEqual(['read-first.txt', 'readme.md'])
  })
})

describe('the name of a text', () => {
  it('comes from the first line with a word', () => {
    expect(nameOfText('\n\n## Über *uns*\n', 'markdown')).toBe('über-uns')
    expect(nameOfText('![cat](cat.png) [My](x) day', 'markdown')).toBe('my-day')
    expect(nameOfText('***', 'markdown')).toBe('page')
  })

  it('of HTML is its title', () => {
    expect(nameOfText('<!doctype html><title>A B</title>', 'html')).toBe('a-b')
    expect(nameOfText('<p>x', 'html')).toBe('page')
  })

  it('keeps the marks of every script with their letters', () => {
    expect(nameOfText('# हिन्दी में', 'markdown')).toBe('हिन्दी-में')
    expect(nameOfText('สวัสดีที่นี่', 'text')).toBe('สวัสดีที่นี่')
    expect(nameOfText('Cafe\u0301 noir', 'text')).toBe('cafe\u0301-noir')
  })

  it('comes from a line with letters, not from a ruler', () => {
    expect(nameOfText('---\ntitle: Tea\n---\n', 'markdown')).toBe('title-tea')
    expect(nameOfText('***', 'markdown')).toBe('page')
  })

  it('is short', () => {
    expect(nameOfText('word '.repeat(100), 'text').length).toBeLessThanOrEqual(48)
  })
})
